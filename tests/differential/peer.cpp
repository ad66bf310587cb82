// Runs the registry of operators (support/operator_cases.h) on the requests of differential.py: numbers of 8 bytes and
// raw elements on stdin, and the answers in the same form on stdout. It is a separate process, so that any end of it is
// a finding.
//
//   first: the number of cases, and for each its name, the dtypes it takes, whether it is differentiable, and its
//   results' tolerance
//   then for each request: the case; the number of inputs, and these; the number of weights, and these
//   the answer: 0, the results and the inputs' gradients; or 1 and the message of an Error, 2 and that of another
//   a tensor: its dtype's place in kDTypes, or -1 for none; its rank, extents, strides and offset; the elements of its
//   storage
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/operator_cases.h>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace adjoint;

constexpr DType kDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};

FILE* answers = nullptr;  // a program's own stdout is no place for others' messages

void read(void* to, std::size_t bytes) {
  if (bytes > 0 && std::fread(to, 1, bytes, stdin) != bytes) std::exit(EXIT_FAILURE);
}
void write(const void* from, std::size_t bytes) {
  if (std::fwrite(from, 1, bytes, answers) != bytes) std::exit(EXIT_FAILURE);
}
template <class T = std::int64_t>
T read_number() {
  T value{};
  read(&value, sizeof value);
  return value;
}
template <class T = std::int64_t>
void write_number(T value) {
  write(&value, sizeof value);
}
void write_text(const std::string& text) {
  write_number(static_cast<std::int64_t>(text.size()));
  write(text.data(), text.size());
}

Tensor read_tensor() {
  const std::int64_t dtype = read_number();
  if (dtype < 0) return {};
  const auto rank = static_cast<std::size_t>(read_number());
  Shape shape;
  Strides strides;
  for (std::size_t axis = 0; axis < rank; ++axis) shape.push_back(read_number());
  for (std::size_t axis = 0; axis < rank; ++axis) strides.push_back(read_number());
  const std::int64_t offset = read_number();
  Tensor storage = Tensor::empty({read_number()}, {.dtype = kDTypes[dtype]});
  read(storage.raw_mutable_data(), static_cast<std::size_t>(storage.numel() * element_size(storage.dtype())));
  return storage.view_as(shape, strides, offset);
}

void write_tensor(const Tensor& tensor) {
  if (!tensor.defined()) return write_number<std::int64_t>(-1);
  const Tensor packed = tensor.detach().contiguous();
  std::int64_t place = 0;
  while (kDTypes[place] != packed.dtype()) ++place;
  write_number(place);
  write_number(packed.dim());
  for (const std::int64_t extent : packed.shape()) write_number(extent);
  write(packed.raw_data(), static_cast<std::size_t>(packed.numel() * element_size(packed.dtype())));
}

struct Answer {
  std::vector<Tensor> results, gradients;
};

// The gradients are those of the sum of results times weights.
Answer answer(const testing::OperatorCase& c, std::vector<Tensor> inputs, const std::vector<Tensor>& weights) {
  for (Tensor& input : inputs) {
    if (!weights.empty() && is_floating_point(input.dtype())) input.requires_grad_();
  }
  Tape tape;
  Answer found{.results = c.call(inputs), .gradients = {}};
  Tensor total;
  for (std::size_t i = 0; i < std::min(weights.size(), found.results.size()); ++i) {
    const Tensor& result = found.results[i];
    if (!result.requires_grad() || !weights[i].defined() || weights[i].shape() != result.shape()) continue;
    const Tensor part = (result * weights[i].to(result.dtype())).sum();
    total = total.defined() ? total + part : part;
  }
  if (total.defined()) tape.backward(total);
  for (const Tensor& input : inputs) found.gradients.push_back(input.grad());
  return found;
}

void serve() {
  const testing::OperatorCase& c = testing::operator_cases().at(static_cast<std::size_t>(read_number()));
  std::vector<Tensor> inputs(static_cast<std::size_t>(read_number()));
  for (Tensor& input : inputs) input = read_tensor();
  std::vector<Tensor> weights(static_cast<std::size_t>(read_number()));
  for (Tensor& weight : weights) weight = read_tensor();
  const auto fails = [](std::int64_t how, const char* message) {
    write_number(how);
    write_text(message);
  };
  try {
    const Answer found = answer(c, std::move(inputs), weights);
    write_number<std::int64_t>(0);
    for (const std::vector<Tensor>* list : {&found.results, &found.gradients}) {
      write_number(static_cast<std::int64_t>(list->size()));
      for (const Tensor& tensor : *list) write_tensor(tensor);
    }
  } catch (const Error& error) {
    fails(1, error.what());
  } catch (const std::exception& error) {
    fails(2, error.what());
  }
}

}  // namespace

int main() {
  answers = fdopen(dup(STDOUT_FILENO), "wb");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  write_number(static_cast<std::int64_t>(testing::operator_cases().size()));
  for (const testing::OperatorCase& c : testing::operator_cases()) {
    write_text(c.name);
    write_number(static_cast<std::int64_t>(c.takes));
    write_number<std::int64_t>(c.differentiable ? 1 : 0);
    write_number(c.tolerance);
    write_number(c.roundings);
  }
  while (true) {
    std::fflush(answers);
    const int next = std::fgetc(stdin);
    if (next == EOF) return EXIT_SUCCESS;
    std::ungetc(next, stdin);
    serve();
  }
}
