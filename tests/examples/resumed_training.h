// A program's training that stops and resumes equals the one that did not stop, bit for bit.
#pragma once

#include "common/run_folder.h"
#include "common/settings.h"
#include "common/training.h"

#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/safetensors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

/// Trains to the end, stopping and resuming after each of `stops` steps, and returns the last checkpoint.
template <class Trainer, class Options>
adjoint::nn::Safetensors trained(const Options& options, const Run& run, const Settings& settings,
                                 const std::vector<std::int64_t>& stops, const std::filesystem::path& path) {
  RunFolder folder(run.program, path);
  for (std::size_t i = 0; i <= stops.size(); ++i) {
    adjoint::manual_seed(i == 0 ? run.seed : 99);
    Trainer trainer(options, run);
    Loop loop(trainer, run, settings);
    if (i > 0) loop.load(folder);
    EXPECT_EQ(loop.run(folder, [&] { return i < stops.size() && loop.steps_done() >= stops[i]; }), i == stops.size());
  }
  return adjoint::nn::load_safetensors(folder / Loop::kCheckpoint);
}

/// Compares two checkpoints: all but their seconds and memory.
inline void expect_same_training(const adjoint::nn::Safetensors& whole, const adjoint::nn::Safetensors& resumed,
                                 const std::string& what = "") {
  ASSERT_EQ(whole.tensors.size(), resumed.tensors.size()) << what;
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    EXPECT_EQ(whole.tensors[i].first, resumed.tensors[i].first) << what;
    EXPECT_EQ(whole.tensors[i].second.to_vector<double>(), resumed.tensors[i].second.to_vector<double>())
        << what << ' ' << whole.tensors[i].first;
  }
  const auto values = [](const adjoint::nn::Safetensors& file) {
    auto json = nlohmann::json::parse(file.metadata.at("values"));
    json.erase("loop.seconds");
    for (auto& point : json["loop.curve"]) {
      for (const char* taken : {"seconds", "memory_in_use", "memory_held"}) point.erase(taken);
    }
    return json;
  };
  EXPECT_EQ(values(whole), values(resumed)) << what;
}

}  // namespace examples
