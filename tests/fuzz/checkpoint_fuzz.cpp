#include "file.h"

#include <adjoint/core/base/crc32c.h>
#include <adjoint/core/base/error.h>
#include <adjoint/nn/checkpoint.h>

#include <cstring>
#include <string>
#include <vector>

using namespace adjoint;

namespace {

struct Place {
  std::int64_t epoch = 1, batch = 2;
  bool operator==(const Place&) const = default;
};

}  // namespace

/// Reads a checkpoint with a corrected checksum, without which every input would count as damaged. Contents that do not
/// fit change nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> file(data, data + size);
  if (size > sizeof(std::uint32_t)) {
    const std::uint32_t crc = crc32c(file.data(), size - sizeof(crc), 0);
    std::memcpy(file.data() + size - sizeof(crc), &crc, sizeof(crc));
  }
  Tensor weight = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  double rate = 0.5;
  std::string text = "text";
  std::vector<std::int32_t> counts{1, 2};
  Place place;
  Generator generator(7);
  nn::Checkpoint checkpoint("/nowhere");
  checkpoint.add("weight", weight);
  checkpoint.add("rate", rate);
  checkpoint.add("text", text, {.strict = false});
  checkpoint.add("counts", counts);
  checkpoint.add("place", place);
  checkpoint.add("generator", generator);
  try {
    fuzz::check(checkpoint.load(fuzz::in_memory(file.data(), file.size())) >= 0, "a step is not negative");
    return 0;
  } catch (const OutOfMemoryError& error) {
    fuzz::check(false, error.what());
  } catch (const Error& error) {
    fuzz::check(std::string(error.what()).starts_with("Checkpoint::load: '"), error.what());
  }
  const float* const values = weight.data<float>();
  for (int i = 0; i < 6; ++i) fuzz::check(values[i] == static_cast<float>(i + 1), "a weight is as it was");
  fuzz::check(rate == 0.5 && text == "text" && counts == std::vector<std::int32_t>{1, 2} && place == Place{} &&
                  generator.seed() == 7 && generator.offset() == 0,
              "everything is as it was");
  return 0;
}
