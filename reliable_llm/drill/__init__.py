"""Rehearse an outage before it happens: scenario files, simulated vendors, the real vendor SDKs, virtual time.

scenario, load      the format, and files in it
loop, clock         virtual time
vendors/            what the SDKs talk to, and what was seen on the wire
setup, asking, operations, runner, observe, compare      one scenario from set-up to verdict
timeline, picture, report, html                          what happened, told and drawn
story, command      the built-in outages and `reliable-llm drill`
"""
