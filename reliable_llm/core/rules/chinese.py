"""Sentences in Chinese, for relays that pass on a vendor's text without its number."""

from __future__ import annotations

from typing import Final

from reliable_llm.core.rules.rule import Rule
from reliable_llm.errors import Kind, Scope

TABLE: Final = (
    Rule(
        kind=Kind.CONTENT_POLICY,
        name="zh.policy",
        pattern="敏感(?:内容|信息|词)|不安全|违规|内容审核|不当内容|内容安全|不适当|"
        "违反.{0,12}(?:政策|规范|规定|法律|法规)",
    ),
    Rule(
        kind=Kind.CONTEXT_WINDOW,
        name="zh.context",
        pattern="超长|超过最大长度|上下文长度|(?:超出|超过).{0,12}(?:上下文|长度|token)|输入过长|"
        "(?:上下文|输入|提示词).{0,8}(?:过长|太长)",
    ),
    Rule(
        kind=Kind.QUOTA_EXHAUSTED,
        name="zh.money",
        pattern="余额不足|欠费|额度.{0,2}(?:用尽|不足|耗尽|用完)|配额.{0,2}(?:用尽|耗尽|不足|用完)|"
        "(?:请|尽快|及时)充值|套餐.{0,2}(?:到期|过期|用完|用尽)|使用上限|次数限额|积分.{0,2}(?:不足|用完)|"
        "资源包|额度失败|(?:今日|当日|每日|本月|每月).{0,8}(?:上限|限额|用完|次数)",
    ),
    Rule(
        kind=Kind.OVERLOADED,
        name="zh.busy",
        pattern="访问量过大|(?:服务|服务器|系统|模型|集群|当前).{0,4}繁忙|负载(?:过|较)高|饱和|过载|"
        "(?:无|没有)可用(?:的)?(?:渠道|账号|账户|通道)|资源不足|排队",
        scope=Scope.MODEL,
    ),
    Rule(
        kind=Kind.RATE_LIMITED,
        name="zh.rate",
        pattern="速率限制|(?:请求|调用|访问).{0,4}(?:频率|频繁|过快|过多)|并发.{0,4}(?:过高|超限|限制|上限)|"
        "限流|频率过高|每分钟",
    ),
    Rule(
        kind=Kind.AUTHENTICATION,
        name="zh.key",
        pattern="(?:身份验证|鉴权|认证)失败|无效的.{0,6}(?:令牌|密钥|key)|"
        "令牌.{0,6}(?:无效|已过期|过期|不存在|验证不正确)|(?:密钥|api ?key).{0,8}(?:无效|错误|不正确|过期)|"
        "账户已被锁定|账号已被锁定",
    ),
    Rule(kind=Kind.PERMISSION, name="zh.permission", pattern="无权|没有权限|权限不足|未开通|未授权"),
    Rule(
        kind=Kind.MODEL_NOT_FOUND,
        name="zh.model",
        pattern="模型.{0,12}(?:不存在|已下线|不支持|已停用|未找到)",
        scope=Scope.MODEL,
    ),
    Rule(kind=Kind.TIMEOUT, name="zh.timeout", pattern="请求超时|响应超时"),
)
