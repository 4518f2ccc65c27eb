#!/usr/bin/env python3
"""A small training loop in JAX; the allocator is chosen by XLA_PYTHON_CLIENT_* in the environment."""

import json
import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    print(f"no JAX: {error}")
    sys.exit(77)


def main():
    if jax.default_backend() != "gpu":
        print(f"JAX runs on {jax.default_backend()}")
        return 77
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    weights = [jax.random.normal(keys[0], (512, 2048)) * 0.02, jax.random.normal(keys[1], (2048, 16)) * 0.02]

    def loss(weights, x, y):
        scores = jax.nn.relu(x @ weights[0]) @ weights[1]
        return -jnp.mean(jax.nn.log_softmax(scores)[jnp.arange(len(y)), y])

    step = jax.jit(jax.value_and_grad(loss))
    losses = []
    for i in range(24):
        rows = 256 * (1 + i % 4)
        x, y = jax.random.normal(keys[2], (rows, 512)), jax.random.randint(keys[3], (rows,), 0, 16)
        value, gradient = step(weights, x, y)
        weights = [w - 0.1 * g for w, g in zip(weights, gradient, strict=True)]
        losses.append(repr(float(value)))
    print(json.dumps({"result": losses}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
