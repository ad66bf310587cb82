// Before every collective, each rank sends every other a description of its call: a few hundred bytes, directly between
// ranks. An error can then name a rank that does not arrive, or that makes another call. Internal.
#pragma once

#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/tensor/shape.h>

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace adjoint::distributed {

using Clock = std::chrono::steady_clock;

/// One thread at a time calls MPI.
std::mutex& mpi_mutex();
/// Throws Error, naming `call`, unless `status` is MPI_SUCCESS.
void check_mpi(int status, const char* call);

/// A rank's next operation; the same bytes on every rank, or an error.
struct Header {
  std::uint64_t number = 0;  // of the call, from 1
  std::int32_t kind = 0, op = 0, root = 0, dtype = 0, device = 0, axes = 0;
  std::array<std::int64_t, kMaxRank> extents = {};
  std::array<char, 256> text = {};  // the caller, or the reason of a failure

  Header() = default;
  Header(std::uint64_t number_, const Call& call, const Tensor& tensor);
  bool is_failure() const { return kind == static_cast<std::int32_t>(Kind::kFailure); }
  bool operator==(const Header&) const = default;
};
/// "all_reduce of float32 (3, 4), kSum, call 17".
std::string describe(const Header& header);

/// Sends this rank's header to all others, and receives theirs. Messages that have not arrived when it ends stay
/// allocated for MPI.
class Exchange {
 public:
  Exchange(MPI_Comm comm, int rank, int size, const Header& mine);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Returns true if all headers have arrived, and were sent.
  bool poll();
  /// Describes the first mismatch among the headers that have arrived; empty: no mismatch.
  std::string mismatch() const;
  /// Ranks whose header has not arrived, or that have not received this one's: "rank 1", "ranks 2, 5".
  std::string missing() const;
  const Header& mine() const { return buffers_->mine; }

 private:
  struct Buffers {
    Header mine;
    std::vector<Header> theirs;         // (size)
    std::vector<MPI_Request> requests;  // (2 * size): receives, then sends; null if there is none
  };
  void check(int status, std::size_t request) const;

  int rank_, size_;
  Buffers* buffers_;
  bool done_ = false;
};

}  // namespace adjoint::distributed
