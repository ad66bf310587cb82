#include <adjoint/tests/support/conv_cases.h>

#include <algorithm>
#include <ostream>
#include <sstream>

namespace adjoint::testing {
namespace {

// Steps through the values that the axes of the sweep leave open, so that neighbours differ in all.
template <class T>
const T& cycle(const std::vector<T>& values, std::size_t i) {
  return values[i % values.size()];
}

struct Channels {
  std::int64_t in, out, groups;
};

const std::vector<Channels> kChannels = {{1, 1, 1}, {3, 2, 1}, {4, 6, 2}, {2, 3, 1}, {3, 3, 3},
                                         {1, 4, 1}, {2, 4, 2}, {5, 1, 1}, {6, 3, 3}};

// Output paddings of every size that the rule allows, by turns.
std::int64_t output_padding(std::int64_t stride, std::int64_t dilation, std::size_t i) {
  return static_cast<std::int64_t>(i) % std::max(stride, dilation);
}

std::string sweep_name(const ConvCase& c) {
  std::ostringstream name;
  name << "Sweep" << c.rank << "d";
  const auto part = [&](const char* label, const auto& value) {
    name << "_" << label;
    if (c.rank == 3) name << value.d << "x";
    if (c.rank >= 2) name << value.h << "x";
    name << value.w;
  };
  part("k", c.kernel);
  part("s", c.stride);
  part("p", c.padding);
  part("op", c.output_padding);
  part("d", c.dilation);
  name << "_c" << c.in_channels << "to" << c.out_channels << "g" << c.groups << "n" << c.batch;
  part("in", c.input);
  return name.str();
}

void add_sweep(std::vector<ConvCase>& cases, ConvCase c) {
  // A padding that would leave nothing is cut to the most that leaves something.
  for (std::size_t axis = 0; axis < 3; ++axis) {
    while (output_extents(c)[axis] < 1) --c.padding[axis];
  }
  c.name = sweep_name(c);
  cases.push_back(c);
}

void add_sweep_1d(std::vector<ConvCase>& cases) {
  const std::vector<std::int64_t> lengths = {7, 5, 11, 4, 9, 2, 13};
  const std::vector<std::int64_t> paddings = {0, 1, 2, 4, 3};
  std::size_t i = 0;
  for (std::int64_t stride = 1; stride <= 5; ++stride) {
    for (std::int64_t dilation : {1, 2, 3, 4}) {
      for (std::int64_t kernel : {1, 2, 3, 4, 5}) {
        const Channels& channels = cycle(kChannels, i);
        add_sweep(cases, {.rank = 1,
                          .batch = 1 + static_cast<std::int64_t>(i % 2),
                          .in_channels = channels.in,
                          .out_channels = channels.out,
                          .groups = channels.groups,
                          .input = {1, cycle(lengths, i)},
                          .kernel = {1, kernel},
                          .stride = {1, stride},
                          .padding = {0, cycle(paddings, i)},
                          .output_padding = {0, output_padding(stride, dilation, i)},
                          .dilation = {1, dilation}});
        ++i;
      }
    }
  }
}

void add_sweep_2d(std::vector<ConvCase>& cases) {
  const std::vector<Extents> inputs = {{3, 4}, {5, 2}, {2, 5}, {4, 3}, {1, 6}, {5, 3}, {3, 1}};
  const std::vector<Extents> kernels = {{3, 2}, {1, 4}, {2, 3}, {4, 1}, {3, 3}, {2, 5}, {1, 1}, {5, 2}};
  const std::vector<Margins> paddings = {{0, 1}, {2, 0}, {1, 3}, {0, 0}, {1, 1}, {3, 2}};
  const std::vector<Extents> dilations = {{1, 1}, {2, 1}, {1, 3}, {3, 2}, {2, 2}};
  std::size_t i = 0;
  for (std::int64_t stride_h = 1; stride_h <= 5; ++stride_h) {
    for (std::int64_t stride_w = 1; stride_w <= 5; ++stride_w) {
      for (int variant = 0; variant < 5; ++variant) {
        const Channels& channels = cycle(kChannels, i);
        const Extents dilation = cycle(dilations, i + i / 5);
        add_sweep(cases, {.rank = 2,
                          .batch = 1 + static_cast<std::int64_t>(i % 2),
                          .in_channels = channels.in,
                          .out_channels = channels.out,
                          .groups = channels.groups,
                          .input = cycle(inputs, i),
                          .kernel = cycle(kernels, i),
                          .stride = {stride_h, stride_w},
                          .padding = cycle(paddings, i),
                          .output_padding = {output_padding(stride_h, dilation.h, i),
                                             output_padding(stride_w, dilation.w, i / 2)},
                          .dilation = dilation});
        ++i;
      }
    }
  }
}

void add_sweep_3d(std::vector<ConvCase>& cases) {
  const std::vector<Extents> inputs = {{3, 2, 4}, {2, 3, 2}, {1, 3, 3}, {4, 1, 2}, {2, 2, 3}, {5, 1, 1}, {1, 2, 4}};
  const std::vector<Extents> kernels = {{2, 3, 2}, {3, 1, 2}, {1, 2, 3}, {3, 3, 3},
                                        {2, 1, 1}, {1, 1, 3}, {4, 2, 1}, {3, 2, 2}};
  const std::vector<Margins> paddings = {{1, 0, 1}, {0, 2, 0}, {2, 1, 1}, {0, 0, 0}, {1, 1, 3}};
  const std::vector<Extents> dilations = {{1, 1, 1}, {2, 1, 1}, {1, 3, 2}, {3, 1, 1}};
  std::size_t i = 0;
  for (std::int64_t stride_d = 1; stride_d <= 3; ++stride_d) {
    for (std::int64_t stride_h = 1; stride_h <= 3; ++stride_h) {
      for (std::int64_t stride_w = 1; stride_w <= 3; ++stride_w) {
        for (int variant = 0; variant < 2; ++variant) {
          const Channels& channels = cycle(kChannels, i);
          const Extents dilation = cycle(dilations, i + i / 4);
          add_sweep(cases, {.rank = 3,
                            .batch = 1 + static_cast<std::int64_t>(i % 2),
                            .in_channels = channels.in,
                            .out_channels = channels.out,
                            .groups = channels.groups,
                            .input = cycle(inputs, i),
                            .kernel = cycle(kernels, i),
                            .stride = {stride_d, stride_h, stride_w},
                            .padding = cycle(paddings, i),
                            .output_padding = {output_padding(stride_d, dilation.d, i),
                                               output_padding(stride_h, dilation.h, i / 2),
                                               output_padding(stride_w, dilation.w, i / 3)},
                            .dilation = dilation});
          ++i;
        }
      }
    }
  }
}

// Shapes with a reason each: used by networks, or likely to break index arithmetic.
void add_named(std::vector<ConvCase>& cases) {
  // clang-format off
  const std::vector<ConvCase> named = {
      {.name = "Depthwise2d", .in_channels = 5, .out_channels = 5, .groups = 5, .input = {7, 6}, .kernel = {4, 4},
       .stride = {2, 2}, .padding = {1, 1}},
      {.name = "Depthwise1d", .rank = 1, .in_channels = 17, .out_channels = 17, .groups = 17, .input = {1, 9},
       .kernel = {1, 3}, .stride = {1, 1}, .padding = {0, 1}},
      {.name = "DepthwiseMultiplier3", .in_channels = 4, .out_channels = 12, .groups = 4, .input = {5, 4}, .kernel = {3, 2},
       .stride = {3, 2}, .dilation = {2, 3}},
      {.name = "DepthwiseReducing", .in_channels = 12, .out_channels = 4, .groups = 4, .input = {4, 5}, .kernel = {2, 3},
       .stride = {1, 2}, .padding = {0, 1}},
      {.name = "Channels17To1", .in_channels = 17, .out_channels = 1, .input = {3, 4}, .kernel = {3, 3}, .stride = {2, 2},
       .padding = {1, 1}, .output_padding = {1, 1}},
      {.name = "Channels1To17", .in_channels = 1, .out_channels = 17, .input = {3, 4}, .kernel = {3, 3}, .stride = {3, 1},
       .padding = {0, 1}},
      {.name = "Channels17To17", .rank = 1, .batch = 1, .in_channels = 17, .out_channels = 17, .input = {1, 11},
       .kernel = {1, 5}, .stride = {1, 4}, .padding = {0, 2}, .dilation = {1, 3}},
      {.name = "Channels34To17Groups17", .in_channels = 34, .out_channels = 17, .groups = 17, .input = {2, 3},
       .kernel = {2, 2}, .stride = {2, 3}},
      {.name = "Batch0In2d", .batch = 0, .in_channels = 3, .out_channels = 2, .input = {4, 5}, .kernel = {3, 3},
       .stride = {2, 2}, .padding = {1, 1}},
      {.name = "Batch0In1d", .rank = 1, .batch = 0, .in_channels = 2, .out_channels = 4, .groups = 2, .input = {1, 5},
       .kernel = {1, 3}, .stride = {1, 3}},
      {.name = "Batch0OfAlignedRows", .batch = 0, .in_channels = 16, .out_channels = 8, .input = {4, 32}, .kernel = {3, 3},
       .padding = {1, 1}},
      {.name = "Batch1", .batch = 1, .in_channels = 2, .out_channels = 3, .input = {4, 5}, .kernel = {3, 2}, .stride = {2, 1}},
      {.name = "Batch7", .batch = 7, .in_channels = 2, .out_channels = 3, .input = {3, 2}, .kernel = {2, 2}, .stride = {1, 2}},
      {.name = "KernelEqualsStride", .in_channels = 4, .out_channels = 3, .input = {4, 5}, .kernel = {2, 2}, .stride = {2, 2}},
      {.name = "KernelBelowStride", .in_channels = 2, .out_channels = 3, .input = {4, 3}, .kernel = {2, 1}, .stride = {5, 3},
       .output_padding = {4, 2}},
      {.name = "Pointwise", .in_channels = 6, .out_channels = 5, .input = {5, 7}, .kernel = {1, 1}},
      {.name = "PointwiseStrided", .in_channels = 3, .out_channels = 2, .input = {3, 4}, .kernel = {1, 1}, .stride = {3, 2}},
      {.name = "PointwisePadded", .in_channels = 3, .out_channels = 2, .input = {5, 6}, .kernel = {1, 1}, .padding = {1, 2}},
      {.name = "InputOfOne", .in_channels = 8, .out_channels = 6, .input = {1, 1}, .kernel = {4, 4}},
      {.name = "InputOfOneInGroups", .batch = 1, .in_channels = 6, .out_channels = 4, .groups = 2, .input = {1, 1},
       .kernel = {4, 3}, .stride = {2, 1}},
      {.name = "InputOfOneStrided", .in_channels = 3, .out_channels = 2, .input = {1, 1}, .kernel = {3, 3}, .stride = {4, 5},
       .padding = {1, 0}, .output_padding = {3, 4}},
      {.name = "EmptyPhases", .in_channels = 2, .out_channels = 3, .input = {4, 5}, .kernel = {3, 3}, .stride = {4, 2},
       .padding = {1, 2}, .output_padding = {3, 1}, .dilation = {2, 4}},
      {.name = "DilationEqualsStride", .in_channels = 2, .out_channels = 2, .input = {4, 4}, .kernel = {3, 2}, .stride = {3, 2},
       .padding = {2, 1}, .dilation = {3, 2}},
      {.name = "OutputPaddingAboveStride", .in_channels = 2, .out_channels = 2, .input = {3, 4}, .kernel = {2, 3},
       .stride = {1, 2}, .output_padding = {3, 4}, .dilation = {4, 5}},
      {.name = "PaddingBeyondKernel", .in_channels = 2, .out_channels = 3, .input = {9, 8}, .kernel = {2, 1}, .stride = {1, 2},
       .padding = {3, 5}},
      {.name = "ImageInsideOneTap", .rank = 1, .in_channels = 2, .out_channels = 2, .input = {1, 3}, .kernel = {1, 5},
       .stride = {1, 1}, .padding = {0, 3}},
      {.name = "ImageMissesEveryTap", .rank = 1, .in_channels = 2, .out_channels = 2, .input = {1, 1}, .kernel = {1, 2},
       .padding = {0, 3}, .output_padding = {0, 1}, .dilation = {1, 7}},
      {.name = "HugeStride", .rank = 1, .in_channels = 2, .out_channels = 3, .input = {1, 1}, .kernel = {1, 3},
       .stride = {1, std::int64_t{1} << 33}, .padding = {0, 1}},
      {.name = "HugeStrideWithOutputPadding", .in_channels = 2, .out_channels = 1, .input = {1, 3}, .kernel = {2, 2},
       .stride = {std::int64_t{1} << 40, 2}, .output_padding = {5, 1}},
      {.name = "HugeDilation", .rank = 1, .in_channels = 2, .out_channels = 3, .input = {1, 4}, .kernel = {1, 1},
       .stride = {1, 2}, .output_padding = {0, 9}, .dilation = {1, std::int64_t{1} << 40}},
      {.name = "HugePaddingCancelsDilation", .rank = 1, .in_channels = 1, .out_channels = 2, .input = {1, 5}, .kernel = {1, 3},
       .padding = {0, std::int64_t{1} << 30}, .dilation = {1, std::int64_t{1} << 30}},
      {.name = "TallAndThin", .in_channels = 2, .out_channels = 3, .input = {37, 1}, .kernel = {5, 1}, .stride = {2, 1},
       .padding = {2, 0}, .output_padding = {1, 0}},
      {.name = "FlatAndWide", .in_channels = 2, .out_channels = 3, .input = {1, 37}, .kernel = {1, 5}, .stride = {1, 3},
       .padding = {0, 2}, .output_padding = {0, 2}},
      {.name = "UnetUp", .in_channels = 24, .out_channels = 13, .input = {9, 11}, .kernel = {2, 2}, .stride = {2, 2}},
      {.name = "DcganBlock", .in_channels = 33, .out_channels = 18, .input = {6, 5}, .kernel = {4, 4}, .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "FsrcnnOut", .batch = 1, .in_channels = 14, .out_channels = 1, .input = {13, 11}, .kernel = {9, 9},
       .stride = {3, 3}, .padding = {4, 4}, .output_padding = {2, 2}},
      {.name = "HifiGanUp", .rank = 1, .batch = 1, .in_channels = 24, .out_channels = 12, .input = {1, 29}, .kernel = {1, 16},
       .stride = {1, 8}, .padding = {0, 4}},
      {.name = "WideKernel", .batch = 1, .in_channels = 9, .out_channels = 7, .input = {19, 23}, .kernel = {3, 7},
       .padding = {1, 3}},
      // Beyond one tile of positions or channels, by a little.
      {.name = "LongRow", .rank = 1, .batch = 1, .in_channels = 9, .out_channels = 10, .input = {1, 4099}, .kernel = {1, 3},
       .padding = {0, 1}},
      {.name = "LongRowDilated", .rank = 1, .batch = 2, .in_channels = 5, .out_channels = 7, .input = {1, 2051},
       .kernel = {1, 5}, .dilation = {1, 3}},
      {.name = "LongRowStrided", .rank = 1, .batch = 2, .in_channels = 6, .out_channels = 5, .input = {1, 1031},
       .kernel = {1, 7}, .stride = {1, 3}, .padding = {0, 2}, .output_padding = {0, 1}, .dilation = {1, 2}},
      {.name = "ManyPositions", .batch = 2, .in_channels = 6, .out_channels = 5, .input = {37, 53}, .kernel = {3, 3},
       .stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 0}},
      {.name = "ManyPositionsDepthwise", .batch = 2, .in_channels = 11, .out_channels = 11, .groups = 11, .input = {33, 41},
       .kernel = {4, 4}, .stride = {2, 2}, .padding = {1, 1}},
      {.name = "ManyInputChannels", .batch = 2, .in_channels = 261, .out_channels = 9, .input = {5, 7}, .kernel = {3, 2},
       .stride = {1, 2}, .padding = {1, 0}},
      {.name = "ManyOutputChannels", .batch = 2, .in_channels = 9, .out_channels = 261, .input = {7, 5}, .kernel = {2, 3},
       .stride = {2, 1}, .padding = {0, 1}},
      {.name = "ManyChannelsInGroups", .batch = 1, .in_channels = 66, .out_channels = 99, .groups = 3, .input = {9, 7},
       .kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 1}, .dilation = {1, 2}},
      {.name = "ManySamples", .rank = 1, .batch = 131, .in_channels = 3, .out_channels = 2, .input = {1, 3}, .kernel = {1, 4},
       .stride = {1, 2}, .padding = {0, 1}},
      // Volumes.
      {.name = "DepthOfOne", .rank = 3, .in_channels = 4, .out_channels = 3, .input = {1, 5, 6}, .kernel = {1, 3, 3},
       .stride = {2, 1, 1}, .padding = {0, 1, 1}},
      {.name = "TapsAlongDepth", .rank = 3, .in_channels = 4, .out_channels = 3, .input = {5, 3, 4}, .kernel = {3, 1, 1},
       .stride = {2, 1, 1}, .padding = {1, 0, 0}, .output_padding = {1, 0, 0}},
      {.name = "TapsAlongWidth", .rank = 3, .in_channels = 3, .out_channels = 4, .input = {3, 4, 5}, .kernel = {1, 1, 3},
       .stride = {1, 1, 2}, .padding = {0, 0, 1}},
      {.name = "TapsAlongHeight", .rank = 3, .in_channels = 3, .out_channels = 4, .input = {3, 4, 5}, .kernel = {1, 3, 1},
       .stride = {1, 2, 1}, .padding = {0, 1, 0}},
      {.name = "PointwiseVolume", .rank = 3, .in_channels = 6, .out_channels = 5, .input = {3, 4, 5}},
      {.name = "VolumeOfOne", .rank = 3, .in_channels = 8, .out_channels = 6, .input = {1, 1, 1}, .kernel = {4, 4, 4}},
      {.name = "Batch0In3d", .rank = 3, .batch = 0, .in_channels = 3, .out_channels = 2, .input = {2, 4, 5},
       .kernel = {2, 3, 3}, .stride = {1, 2, 2}, .padding = {1, 1, 1}},
      {.name = "Depthwise3d", .rank = 3, .in_channels = 5, .out_channels = 5, .groups = 5, .input = {4, 5, 6},
       .kernel = {3, 3, 3}, .stride = {2, 1, 2}, .padding = {1, 1, 1}},
      {.name = "UnetUp3d", .rank = 3, .batch = 1, .in_channels = 12, .out_channels = 9, .input = {4, 5, 6},
       .kernel = {2, 2, 2}, .stride = {2, 2, 2}},
      {.name = "GanBlock3d", .rank = 3, .batch = 1, .in_channels = 10, .out_channels = 7, .input = {4, 4, 4},
       .kernel = {4, 4, 4}, .stride = {2, 2, 2}, .padding = {1, 1, 1}},
      {.name = "ManyPositions3d", .rank = 3, .batch = 1, .in_channels = 5, .out_channels = 6, .input = {7, 12, 21},
       .kernel = {3, 3, 3}, .padding = {1, 1, 1}},
      {.name = "ManyPositionsStrided3d", .rank = 3, .batch = 2, .in_channels = 3, .out_channels = 4, .input = {6, 9, 17},
       .kernel = {3, 2, 3}, .stride = {2, 2, 2}, .padding = {1, 0, 1}, .output_padding = {1, 1, 0}},
      {.name = "HugeStrideOfDepth", .rank = 3, .in_channels = 2, .out_channels = 1, .input = {1, 2, 3}, .kernel = {1, 2, 2},
       .stride = {std::int64_t{1} << 40, 2, 1}, .output_padding = {5, 1, 0}},
  };
  // clang-format on
  cases.insert(cases.end(), named.begin(), named.end());
}

std::vector<ConvCase> make_cases() {
  std::vector<ConvCase> cases;
  add_named(cases);
  add_sweep_1d(cases);
  add_sweep_2d(cases);
  add_sweep_3d(cases);
  return cases;
}

template <class Condition>
std::vector<ConvCase> cases_where(Condition condition) {
  std::vector<ConvCase> chosen;
  std::copy_if(conv_cases().begin(), conv_cases().end(), std::back_inserter(chosen), condition);
  return chosen;
}

template <class Values>
void print(std::ostream& out, const char* name, const Values& value) {
  out << ", ." << name << " = {" << value.d << ", " << value.h << ", " << value.w << "}";
}

}  // namespace

Extents output_extents(const ConvCase& c) {
  Extents out;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    out[axis] = (c.input[axis] - 1) * c.stride[axis] - 2 * c.padding[axis] + c.dilation[axis] * (c.kernel[axis] - 1) +
                c.output_padding[axis] + 1;
  }
  return out;
}

ConvGeometry geometry(const ConvCase& c) {
  return {.rank = c.rank,
          .batch = c.batch,
          .image_channels = c.out_channels,
          .feature_channels = c.in_channels,
          .groups = c.groups,
          .image = output_extents(c),
          .feature = c.input,
          .kernel = c.kernel,
          .stride = c.stride,
          .padding = c.padding,
          .dilation = c.dilation};
}

std::int64_t multiply_adds(const ConvCase& c) {
  return c.batch * c.in_channels * (c.out_channels / c.groups) * c.input.product() * c.kernel.product();
}

const std::vector<ConvCase>& conv_cases() {
  static const std::vector<ConvCase> cases = make_cases();
  return cases;
}

const std::vector<ConvCase>& planar_conv_cases() {
  static const std::vector<ConvCase> cases = cases_where([](const ConvCase& c) { return c.rank <= 2; });
  return cases;
}

const std::vector<ConvCase>& small_conv_cases() {
  static const std::vector<ConvCase> cases = cases_where([](const ConvCase& c) { return multiply_adds(c) <= 4000; });
  return cases;
}

std::ostream& operator<<(std::ostream& out, const ConvCase& c) {
  out << "ConvCase{.name = \"" << c.name << "\", .rank = " << c.rank << ", .batch = " << c.batch
      << ", .in_channels = " << c.in_channels << ", .out_channels = " << c.out_channels << ", .groups = " << c.groups;
  print(out, "input", c.input);
  print(out, "kernel", c.kernel);
  print(out, "stride", c.stride);
  print(out, "padding", c.padding);
  print(out, "output_padding", c.output_padding);
  print(out, "dilation", c.dilation);
  return out << "}";
}

}  // namespace adjoint::testing
