// Random calls that rearrange, pick and sample elements: no crash, and every error names the function called.
#include <adjoint/core/tensor/factories.h>
#include <adjoint/ops/fold/fold.h>
#include <adjoint/ops/grid/grid.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/tests/support/invalid_calls.h>

#include <gtest/gtest.h>

#include <utility>

namespace adjoint::testing {
namespace {

using A = Arguments&;

Size2 size2(A a) { return {a.integer(), a.integer()}; }
UnfoldParams blocks(A a) { return {size2(a), size2(a), size2(a), size2(a)}; }

// Mostly integers that fit.
Tensor places(A a) { return a.chance(4) ? a.tensor() : randint(0, 2, a.chance(2) ? Shape{2} : Shape{1, 2}); }

std::vector<Index> indices(A a) {
  std::vector<Index> all;
  for (unsigned i = 0; i < 3 && !a.chance(3); ++i) {
    if (a.chance(4)) {
      all.emplace_back(a.integer());
    } else if (a.chance(2)) {
      all.emplace_back(Slice(a.integer(), a.integer(), a.integer()));
    } else if (a.chance(2)) {
      all.emplace_back(places(a));
    } else if (a.chance(2)) {
      all.emplace_back(kEllipsis);
    } else {
      all.emplace_back(kNewAxis);
    }
  }
  return all;
}

TEST(InvalidCalls, OfIndexing) {
  const std::vector<Call> table{
      {"slice", [](A a) { return slice(a.tensor(), a.integer(), a.integer(), a.integer(), a.integer()); }},
      {"embed", [](A a) { return embed(a.tensor(), a.integer(), a.integer(), a.integer(), a.integer()); }},
      {"chunk", [](A a) { return chunk(a.tensor(), a.integer(), a.integer()); }},
      {"repeat", [](A a) { return repeat(a.tensor(), a.dims()); }},
      {"flip", [](A a) { return flip(a.tensor(), a.dims()); }},
      {"movedim", [](A a) { return movedim(a.tensor(), a.dims(), a.dims()); }},
      {"unflatten", [](A a) { return unflatten(a.tensor(), a.integer(), a.shape()); }},
      {"index_select", [](A a) { return index_select(a.tensor(), a.integer(), places(a)); }},
      {"gather", [](A a) { return gather(a.tensor(), a.integer(), places(a)); }},
      {"scatter", [](A a) { return scatter(a.tensor(), a.integer(), places(a), a.tensor()); }},
      {"scatter", [](A a) { return scatter(a.tensor(), a.integer(), places(a), a.scalar()); }},
      {"scatter_add", [](A a) { return scatter_add(a.tensor(), a.integer(), places(a), a.tensor()); }},
      {"embedding", [](A a) { return embedding(places(a), a.tensor(), a.integer()); }},
      {"one_hot", [](A a) { return one_hot(places(a), a.integer()); }},
      {"nonzero", [](A a) { return nonzero(a.tensor()); }},
      {"masked_select", [](A a) { return masked_select(a.tensor(), a.tensor()); }},
      {"index", [](A a) { return index(a.tensor(), indices(a)); }},
      {"index_put_",
       [](A a) {
         Tensor x = a.fresh();
         index_put_(x, indices(a), a.tensor());
       }},
      {"unfold", [](A a) { return unfold(a.tensor(), blocks(a)); }},
      {"fold", [](A a) { return fold(a.tensor(), size2(a), blocks(a)); }},
      {"grid_sample",
       [](A a) {
         return grid_sample(a.tensor(), a.tensor(),
                            {a.enumerator<GridSampleMode>(3), a.enumerator<GridSamplePadding>(3), a.chance(2)});
       }},
      {"affine_grid", [](A a) { return affine_grid(a.tensor(), a.shape(), a.chance(2)); }},
      {"bernoulli", [](A a) { return bernoulli(a.tensor(), a.scalar()); }},
      {"linspace", [](A a) { return linspace(a.scalar(), a.scalar(), a.integer(), a.options()); }},
      {"randint", [](A a) { return randint(a.integer(), a.integer(), a.shape(), a.options()); }},
  };
  expect_errors_that_name_the_call(table, 20000, 28);
}

}  // namespace
}  // namespace adjoint::testing
