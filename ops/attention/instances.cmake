# The launch functions of fused attention, and the arithmetics that each is compiled for.
adjoint_instances(ops/attention/cuda/launch.cuh Arithmetic IN bfloat16 float16 tf32 OF run_attention run_attention_gradients)
