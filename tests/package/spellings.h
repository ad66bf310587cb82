// The names that the lines of spellings.tsv use: tensors, modules, optimisers, data. They are only declared, because
// nothing runs.
#include <adjoint/adjoint.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace adjoint;

extern Tensor x, y, z, v, w, b, mask, places, labels, probs, loss;
extern Device device;
extern std::vector<float> values;
extern float numbers[3];
extern std::vector<Tensor> tensors;
extern std::vector<nn::Layer> layers;
extern Generator generator;
extern dlpack::ManagedTensor* managed;
extern nn::Sequential net;
extern nn::ModuleList<nn::Linear> list;
extern nn::Conv2d conv;
extern NamedTensors state;
extern optim::Adam optimizer;
extern optim::EMA ema;
extern optim::GradScaler scaler;
extern optim::StepLR scheduler;
extern optim::ReduceLROnPlateau plateau;
extern data::TensorDataset dataset;
extern data::SequentialSampler sampler;
extern data::DataLoader loader;
extern data::Log writer;
extern Tape tape;
void sink(const Tensor& tensor);
