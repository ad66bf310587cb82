// Files while memory runs out: a call throws, the files on the disk stay whole, and the next call succeeds.
#include <adjoint/adjoint.h>
#include <adjoint/tests/faults/allocations.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <string>

namespace adjoint::testing {
namespace {

namespace fs = std::filesystem;

class FilesFault : public TempFolder {
 protected:
  /// Calls `f` with its first allocation failing, then its second, and so on until none is left; `check` after each.
  static void fail_each(const std::function<void()>& f, const std::function<void(bool done)>& check) {
    for (std::int64_t n = 1;; ++n) {
      std::int64_t seen = 0;
      bool done = false;
      try {
        const FailAllocation fail(n, false, seen);
        f();
        done = true;
      } catch (const std::bad_alloc&) {
      } catch (const Error&) {  // of elements
      }
      check(done);
      if (seen < n) break;
      ASSERT_LT(n, 100000);
    }
  }
};

TEST_F(FilesFault, SavingThrowsAndTheOldCheckpointIsThere) {
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    Tensor weight = Tensor::zeros({3});
    const fs::path files = folder / (background ? "b" : "a");
    nn::Checkpoint checkpoint(files, {.keep_last = 1, .background = background});
    checkpoint.add("weight", weight);
    std::int64_t last = 0;
    checkpoint.save(last);
    checkpoint.wait();
    fail_each(
        [&] {
          weight.fill_(static_cast<double>(last + 1));
          checkpoint.save(last + 1);
          checkpoint.wait();
        },
        [&](bool done) {
          weight.zero_();
          const std::int64_t step = checkpoint.resume().value();
          EXPECT_TRUE(step == last + 1 || (step == last && !done)) << step << " after " << last;
          EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(3, static_cast<double>(step)));
          // A failure to remove the old file leaves two. The next save removes both.
          last = step + 1;
          weight.fill_(static_cast<double>(last));
          checkpoint.save(last);
          checkpoint.wait();
          EXPECT_EQ(std::distance(fs::directory_iterator(files), fs::directory_iterator()), 1);
        });
    EXPECT_GT(last, 0);
  }
}

TEST_F(FilesFault, ResumingThrowsAndChangesNothing) {
  Tensor weight = Tensor::ones({3});
  nn::Checkpoint checkpoint(folder / "run", {.warn = [](const std::string&) {}});
  checkpoint.add("weight", weight);
  checkpoint.save(1);
  checkpoint.save(2);
  fail_each([&] { EXPECT_EQ(checkpoint.resume().value(), 2); }, [](bool) {});
}

TEST_F(FilesFault, FoldersAreListedOrTheCallThrows) {
  for (const char* const name : {"a.png", "b.png"}) {
    data::write_png(folder / name, Tensor::zeros({1, 2, 2}, {.dtype = kUInt8}));
  }
  std::size_t count = 0;
  fail_each(
      [&] {
        count = 0;
        count = data::list_images(folder).size();
      },
      [&](bool done) { EXPECT_EQ(count, done ? 2U : 0U); });
}

}  // namespace
}  // namespace adjoint::testing
