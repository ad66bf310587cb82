// The CUDA kernels' plans for two tables of bench/layers (tests/fixtures/conv_plans.tsv): times in their models, memory
// and tiles, each a number of four digits. Changing a planner on purpose changes the table: with
// ADJOINT_WRITE_PLANS=FILE in the environment the test writes a new one, and git shows the differences.
#include <adjoint/bench/layers.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/channelwise/plan.h>
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/correlation/slices.h>
#include <adjoint/ops/conv/few_results/plan.h>
#include <adjoint/ops/conv/layouts/orders.h>
#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/ops/conv/line/narrow/plan.h>
#include <adjoint/ops/conv/line/packed/plan.h>
#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/ops/conv/product/taps.h>
#include <adjoint/ops/conv/short_sums/plan.h>
#include <adjoint/ops/conv/weight/blocks_plan.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/tests/support/fixtures.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::cuda {
namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;

std::string numbers(std::initializer_list<double> values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.4g}", text.empty() ? "" : " ", value);
  return text;
}

template <class Plan, class Make, class Describe>
void add(Cells& cells, const std::string& name, const Make& make, const Describe& describe) {
  Plan plan{};
  cells.emplace_back(name, make(plan) ? describe(plan) : "-");
}

struct Mode {
  const char* name;
  Arithmetic arithmetic;

  bool split() const { return is_split(arithmetic); }
};
constexpr Machine kMachine{};
constexpr Mode kModes[] = {{"half", Arithmetic::kBFloat16},
                           {"tf32", Arithmetic::kTF32},
                           {"float32", Arithmetic::kFloat32}};

void add_sums(Cells& cells, const ConvGeometry& g, bool transposed) {
  const std::string role = transposed ? "conv_transpose" : "conv";
  for (const Mode& a : kModes) {
    const auto name = [&](const char* kernel) { return fmt::format("{} {} {}", role, a.name, kernel); };
    CorrelationPlan whole;
    bool has_whole = false;
    for (const auto& [kernel, limits] :
         {std::pair("correlation", kCorrelationLimits), {"blocked", kBlockedLimits}, {"mma", CorrelationLimits{}}}) {
      const auto describe = [&](const CorrelationPlan& p) {
        return numbers({correlation_clocks(p, a.split(), kMachine), static_cast<double>(correlation_smem(p).end),
                        static_cast<double>(p.tiles()), static_cast<double>(p.tile_columns),
                        static_cast<double>(p.x_stages)});
      };
      add<CorrelationPlan>(
          cells, name(kernel),
          [&, limits = limits, kernel = kernel](CorrelationPlan& p) {
            if (!plan_correlation(g, transposed, a.arithmetic, limits, kMachine, p)) return false;
            if (kernel == std::string("correlation")) {
              whole = p;
              has_whole = true;
            }
            return true;
          },
          describe);
    }
    add<CorrelationPlan>(
        cells, name("sliced"),
        [&](CorrelationPlan& p) {
          return has_whole && has_few_tiles(whole) &&
                 plan_slices(g, transposed, a.arithmetic, kCorrelationLimits, kMachine, p);
        },
        [&](const CorrelationPlan& p) {
          return numbers({slices_clocks(p, a.split(), kMachine), static_cast<double>(slices_bytes(p))});
        });
    add<NarrowPlan>(
        cells, name("narrow"), [&](NarrowPlan& p) { return plan_narrow(g, transposed, a.arithmetic, p); },
        [&](const NarrowPlan& p) {
          return numbers({narrow_clocks(p, a.arithmetic, kMachine), static_cast<double>(p.smem_bytes())});
        });
    add<PackedPlan>(
        cells, name("packed"), [&](PackedPlan& p) { return plan_packed(g, transposed, a.arithmetic, p); },
        [&](const PackedPlan& p) {
          return numbers({packed_clocks(p, kMachine), static_cast<double>(p.smem_bytes())});
        });
    add<ChannelwisePlan>(
        cells, name("channelwise"),
        [&](ChannelwisePlan& p) { return plan_channelwise(g, transposed, a.arithmetic, p); },
        [&](const ChannelwisePlan& p) {
          return numbers({static_cast<double>(p.smem_bytes()), static_cast<double>(p.tiles()),
                          static_cast<double>(p.taps_h), static_cast<double>(p.taps_w)});
        });
    if (unit_elements(a.arithmetic) == 1) {
      add<Col2imPlan>(
          cells, name("col2im"), [&](Col2imPlan& p) { return plan_col2im(g, transposed, a.arithmetic, kMachine, p); },
          [&](const Col2imPlan& p) {
            return numbers({col2im_clocks(p, kMachine), static_cast<double>(p.smem_bytes())});
          });
    }
    if (!a.split()) {
      add<FewResultsPlan>(
          cells, name("few_results"), [&](FewResultsPlan& p) { return plan_few_results(g, transposed, kMachine, p); },
          [&](const FewResultsPlan& p) {
            return numbers({few_results_clocks(p, kMachine), static_cast<double>(p.slices)});
          });
      add<ShortSumsPlan>(
          cells, name("short_sums"), [&](ShortSumsPlan& p) { return plan_short_sums(g, transposed, kMachine, p); },
          [&](const ShortSumsPlan& p) {
            return numbers({static_cast<double>(p.blocks()), static_cast<double>(p.channel_block)});
          });
    }
  }
}

std::string describe_product(const ProductPlan& p) {
  return numbers({static_cast<double>(p.tiles()), static_cast<double>(p.slices), static_cast<double>(p.smem_bytes()),
                  static_cast<double>(product_copy_bytes(p))});
}

void add_products(Cells& cells, const ConvGeometry& g) {
  for (const auto& [name, of] : {std::pair("conv", ProductOf::kFeature),
                                 {"conv_transpose", ProductOf::kImage},
                                 {"conv_weight", ProductOf::kFilter}}) {
    for (const Mode& a : {kModes[0], kModes[1]}) {
      add<ProductPlan>(
          cells, fmt::format("{} {} product", name, a.name),
          [&, of = of](ProductPlan& p) { return plan_product(g, of, a.arithmetic, kMachine, p); }, describe_product);
    }
  }
}

void add_weights(Cells& cells, const ConvGeometry& g) {
  const auto describe = [](const WeightPlan& p) {
    return numbers({static_cast<double>(weight_smem_bytes(p)), static_cast<double>(weight_workspace_bytes(p)),
                    static_cast<double>(p.stages), static_cast<double>(p.stages_per_split),
                    static_cast<double>(p.block_channels)});
  };
  for (const Mode& a : kModes) {
    const auto name = [&](const char* kernel) { return fmt::format("conv_weight {} {}", a.name, kernel); };
    add<WeightPlan>(
        cells, name("mma"), [&](WeightPlan& p) { return plan_weight(g, a.arithmetic, kMachine, p); }, describe);
    add<WeightPlan>(
        cells, name("wgmma"), [&](WeightPlan& p) { return plan_wgmma_weight(g, a.arithmetic, kMachine, p); }, describe);
    add<WeightPlan>(
        cells, name("boxes"), [&](WeightPlan& p) { return plan_boxed_weight(g, a.arithmetic, kMachine, p); }, describe);
  }
  for (const Mode& a : {kModes[0], kModes[1]}) {
    add<TapwisePlan>(
        cells, fmt::format("conv_weight {} tapwise", a.name),
        [&](TapwisePlan& p) { return plan_tapwise(g, a.arithmetic, kMachine, p); },
        [&](const TapwisePlan& p) { return numbers({tapwise_clocks(p, kMachine)}); });
    add<ChannelwiseWeightPlan>(
        cells, fmt::format("conv_weight {} channelwise", a.name),
        [&](ChannelwiseWeightPlan& p) { return plan_channelwise_weight(g, a.arithmetic, p); },
        [&](const ChannelwiseWeightPlan& p) {
          return numbers({static_cast<double>(p.smem_bytes()), static_cast<double>(p.workspace_bytes()),
                          static_cast<double>(p.tiles_per_split), static_cast<double>(p.walk.tiles())});
        });
    add<FewWeightPlan>(
        cells, fmt::format("conv_weight {} few_results", a.name),
        [&](FewWeightPlan& p) { return plan_few_weight(g, kMachine, p); },
        [&](const FewWeightPlan& p) {
          return numbers({few_weight_clocks(p, a.arithmetic, kMachine), static_cast<double>(p.workspace_bytes())});
        });
  }
  add<BlockedWeightPlan>(
      cells, "conv_weight half blocked", [&](BlockedWeightPlan& p) { return plan_blocked_weight(g, kMachine, p); },
      [&](const BlockedWeightPlan& p) {
        return numbers(
            {static_cast<double>(p.tiles()), static_cast<double>(p.smem_bytes()), static_cast<double>(p.sums_bytes())});
      });
}

/// Other orders of operands: the remaining problem, and the copies.
void add_orders(Cells& cells, const ConvGeometry& g) {
  const auto describe = [](const RearrangedPlan& p) {
    return numbers({static_cast<double>(p.geometry.image.w), static_cast<double>(p.geometry.image_channels),
                    static_cast<double>(p.image.numel() + p.image_samples.numel()),
                    static_cast<double>(p.feature.numel() + p.feature_samples.numel()),
                    static_cast<double>(p.filter.numel())});
  };
  for (const auto& [name, size] : {std::pair("half", std::int64_t{2}), {"float", std::int64_t{4}}}) {
    const auto order = [&, name = name](const char* of, const auto& make) {
      add<RearrangedPlan>(cells, fmt::format("order {} {}", name, of), make, describe);
    };
    const std::int64_t bytes = size;
    order("unshuffled", [&](RearrangedPlan& p) { return plan_strides_as_channels(g, false, bytes, p); });
    order("unshuffled result", [&](RearrangedPlan& p) { return plan_strides_as_channels(g, true, bytes, p); });
    order("padded image", [&](RearrangedPlan& p) { return pad_image_rows(g, bytes, p); });
    order("padded", [&](RearrangedPlan& p) {
      p.geometry = g;
      return pad_rows(g, bytes, p);
    });
    order("batch columns", [&](RearrangedPlan& p) { return plan_batch_as_columns(g, bytes, p); });
  }
}

Cells plans_of(const ConvGeometry& g) {
  Cells cells;
  for (const bool transposed : {false, true}) add_sums(cells, g, transposed);
  add_orders(cells, g);
  add_products(cells, g);
  add_weights(cells, g);
  return cells;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> columns;
  std::stringstream stream(line);
  for (std::string column; std::getline(stream, column, '\t');) columns.push_back(column);
  return columns;
}

TEST(ConvPlans, OfBenchmarksLayersAreThoseOfTheTable) {
  std::vector<bench::Layer> layers = bench::read_layers("reported");
  for (bench::Layer& layer : bench::read_layers("others")) layers.push_back(std::move(layer));
  std::vector<Cells> plans(layers.size());
  parallel_for(std::ssize(layers), [&](std::int64_t i) {
    plans[static_cast<std::size_t>(i)] = plans_of(layers[static_cast<std::size_t>(i)].geometry);
  });

  if (const char* path = std::getenv("ADJOINT_WRITE_PLANS")) {
    std::ofstream out(path);
    out << "layer";
    for (const auto& [name, value] : plans[0]) out << '\t' << name;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      out << '\n' << layers[i].name;
      for (const auto& [name, value] : plans[i]) out << '\t' << value;
    }
    out << '\n';
    return;
  }
  std::ifstream file(testing::fixture("conv_plans.tsv"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const std::vector<std::string> header = split(line);
  ASSERT_EQ(header.size(), 1 + plans[0].size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    ASSERT_TRUE(std::getline(file, line)) << layers[i].name << " has no line";
    const std::vector<std::string> row = split(line);
    ASSERT_EQ(row.size(), header.size()) << line;
    EXPECT_EQ(row[0], layers[i].name);
    for (std::size_t c = 0; c < plans[i].size(); ++c) {
      EXPECT_EQ(header[1 + c], plans[i][c].first);
      EXPECT_EQ(plans[i][c].second, row[1 + c]) << row[0] << ": " << plans[i][c].first;
    }
  }
  EXPECT_FALSE(std::getline(file, line)) << line;
}

}  // namespace
}  // namespace adjoint::cuda
