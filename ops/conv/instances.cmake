# The launch functions that are templates over an arithmetic, and the arithmetics that each is compiled for.
adjoint_instances(ops/conv/channelwise/cuda/launch.cuh DType IN bfloat16 float16 float32
                  OF run_channelwise_gather run_channelwise_weight)
adjoint_instances(ops/conv/channelwise/cuda/depthwise/launch.cuh DType IN bfloat16 float16 float32
                  OF run_depthwise run_depthwise_weight)
adjoint_instances(ops/conv/correlation/cuda/blocks/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32 OF run_blocked)
adjoint_instances(ops/conv/correlation/cuda/mma/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32
                  OF run_correlation_mma)
adjoint_instances(ops/conv/correlation/cuda/rows/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32
                  OF pack_correlation_filter run_correlation)
adjoint_instances(ops/conv/few_results/cuda/launch.cuh DType IN bfloat16 float16 float32
                  OF run_few_results run_few_weight)
adjoint_instances(ops/conv/line/col2im/cuda/launch.cuh Arithmetic IN float32 tf32 OF run_col2im)
adjoint_instances(ops/conv/line/narrow/cuda/launch.cuh DType IN bfloat16 float16 float32 OF run_narrow)
adjoint_instances(ops/conv/line/packed/cuda/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32 OF run_packed)
adjoint_instances(ops/conv/pipeline/cuda/launch.cuh Arithmetic IN bfloat16 float16 tf32
                  OF run_pipeline_in run_few_sources_in)
adjoint_instances(ops/conv/pipeline/cuda/weight/launch.cuh Arithmetic IN bfloat16 float16 tf32
                  OF run_pipeline_weight_in)
adjoint_instances(ops/conv/product/cuda/launch.cuh Arithmetic IN bfloat16 float16 tf32 OF run_product_in)
adjoint_instances(ops/conv/short_sums/cuda/launch.cuh DType IN bfloat16 float16 float32 OF run_short_sums)
adjoint_instances(ops/conv/weight/cuda/blocks/launch.cuh Arithmetic IN bfloat16 float16 OF run_blocked_weight)
adjoint_instances(ops/conv/weight/cuda/boxes/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32 OF run_boxes_weight)
adjoint_instances(ops/conv/weight/cuda/copied/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32 OF run_wgmma_weight)
adjoint_instances(ops/conv/weight/cuda/mma/launch.cuh Arithmetic IN bfloat16 float16 float32 tf32 OF run_weight)
