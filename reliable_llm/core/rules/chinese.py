"""Sentences in Chinese, for relays that pass on a vendor's text without its number."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import Rule
from reliable_llm.errors import Kind, Scope

TABLE: Final = (
    Rule(
        kind=Kind.CONTENT_POLICY, name="zh.policy", pattern="敏感内容|不安全|违规内容|内容审核|不当内容|敏感词|内容安全"
    ),
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="zh.context",
        pattern="超长|超过最大长度|上下文长度|超出.{0,8}(?:上下文|长度)|输入过长",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="zh.money",
        pattern="余额不足|欠费|额度(?:已)?(?:用尽|不足|耗尽|用完)|配额(?:已)?(?:用尽|耗尽|不足)|请充值|套餐已到期|套餐已过期|使用上限|"
        "次数限额|积分不足|资源包",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="zh.busy",
        pattern="访问量过大|服务繁忙|服务器繁忙|系统繁忙|负载过高|饱和|过载|无可用渠道|当前繁忙",
        scope=Scope.MODEL,
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="zh.rate",
        pattern="速率限制|请求频率|并发(?:数)?(?:过高|超限|限制)|请求过于频繁|请求过快|限流|频率过高",
    ),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="zh.key",
        pattern="身份验证失败|无效的.{0,6}(?:令牌|密钥|key)|令牌.{0,6}(?:无效|已过期|过期|不存在|验证不正确)|密钥.{0,6}(?:无效|错误)|账户已被锁定|账号已被锁定",
    ),
    Rule(kind=Kind.PERMISSION, name="zh.permission", pattern="无权|没有权限|权限不足|未开通"),
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="zh.model",
        pattern="模型不存在|模型.{0,12}(?:不存在|已下线|不支持)",
        scope=Scope.MODEL,
    ),
    Rule(kind=Kind.TIMEOUT, name="zh.timeout", pattern="请求超时|响应超时"),
)
