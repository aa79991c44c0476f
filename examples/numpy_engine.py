#!/usr/bin/env python3
"""An engine in NumPy, over the pipe:

    kvcert gen --suite standard > cases.jsonl
    python3 examples/numpy_engine.py < cases.jsonl | kvcert judge cases.jsonl

One case a line comes in, one answer a line goes out. What is not offered is answered "unsupported".
"""
import copy
import json
import sys

import numpy as np


def tensor(text, *shape):
    return np.frombuffer(bytes.fromhex(text), dtype="<f4").reshape(shape)


class Layer:
    def __init__(self, case):
        self.kv_heads, self.dim, self.heads = case["kv_heads"], case["head_dim"], case["query_heads"]
        if self.heads % self.kv_heads != 0:
            raise ValueError("query heads that do not divide")
        self.window = case.get("window", 0)
        self.scale = tensor(case["scale"])
        self.softcap = tensor(case["softcap"]) if "softcap" in case else np.float32(0)
        self.sinks = tensor(case["sinks"], self.heads) if case.get("sinks") else None
        self.clear()

    def clear(self):
        self.k = np.zeros((0, self.kv_heads, self.dim), np.float32)
        self.v = self.k.copy()

    def append(self, step):
        shape = step["n"], self.kv_heads, self.dim
        self.k = np.concatenate([self.k, tensor(step["k"], *shape)])
        self.v = np.concatenate([self.v, tensor(step["v"], *shape)])

    def attend(self, q, position):  # q [heads, dim]
        first = 0 if self.window == 0 else max(0, position + 1 - self.window)
        group = self.heads // self.kv_heads  # query head h reads KV head h // group
        k = self.k[first:position + 1].repeat(group, axis=1)
        v = self.v[first:position + 1].repeat(group, axis=1)
        s = np.einsum("hd,phd->hp", q, k) * self.scale
        if self.softcap:
            s = self.softcap * np.tanh(s / self.softcap)
        if self.sinks is not None:  # one more column, without a value
            s = np.concatenate([s, self.sinks[:, None]], axis=1)
        e = np.exp(s - s.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        return np.einsum("hp,phd->hd", p[:, :len(v)], v)

    def attend_all(self, step, start):
        n = step["n"]
        if start + n > len(self.k):
            raise ValueError("positions that are not stored")
        q = tensor(step["q"], n, self.heads, self.dim)
        out = np.array([self.attend(q[i], start + i) for i in range(n)], dtype="<f4")
        return {"out": out.tobytes().hex()}


def play(step, layers, saved):
    op, on = step["op"], step.get("on", 0)
    if op == "create":
        layers[on] = Layer(step)
        return "ok"
    layer = layers.get(on)
    if layer is None:
        return "unsupported"
    if op in ("append", "forward"):
        layer.append(step)
        return "ok" if op == "append" else layer.attend_all(step, len(layer.k) - step["n"])
    if op in ("attend", "length"):
        return layer.attend_all(step, step["from"]) if op == "attend" else {"count": len(layer.k)}
    if op == "truncate":
        keep = max(0, len(layer.k) - step["n"])
        layer.k, layer.v = layer.k[:keep], layer.v[:keep]
        return "ok"
    if op == "clear":
        layer.clear()
    elif op == "snapshot":
        saved[step["slot"]] = copy.deepcopy(layer)
    elif op == "restore":
        layers[on] = copy.deepcopy(saved[step["slot"]])
    return "ok" if op in ("clear", "snapshot", "restore") else "unsupported"


def answer(step, layers, saved):
    try:
        return play(step, layers, saved)
    except ValueError:
        return "refused"


np.seterr(all="ignore")
print(json.dumps({"engine": {"name": "NumPy", "version": np.__version__}}), flush=True)
for line in sys.stdin:
    case, layers, saved = json.loads(line), {}, {}
    print(json.dumps({"id": case["id"], "steps": [answer(s, layers, saved) for s in case["steps"]]}), flush=True)
