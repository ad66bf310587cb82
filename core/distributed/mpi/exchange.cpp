#include <adjoint/core/distributed/mpi/exchange.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <cstring>

namespace adjoint::distributed {
namespace {

constexpr int kHeaderTag = 1;

// Bytes on the wire: padding is zero, because headers are zeroed first and copied whole.
static_assert(std::is_trivially_copyable_v<Header>);

}  // namespace

std::mutex& mpi_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail("{}: MPI must succeed; got '{}' on rank {}", call, text, rank());
}

Header::Header(std::uint64_t number_, const Call& call, const Tensor& tensor)
    : number(number_), kind(static_cast<int>(call.kind)), op(static_cast<int>(call.op)), root(call.root) {
  std::copy_n(call.caller.begin(), std::min(call.caller.size(), text.size() - 1), text.begin());
  if (!tensor.defined()) return;
  dtype = static_cast<int>(tensor.dtype());
  device = static_cast<int>(tensor.device().type);
  axes = static_cast<int>(tensor.shape().size());
  std::copy(tensor.shape().begin(), tensor.shape().end(), extents.begin());
}

std::string describe(const Header& header) {
  const auto kind = static_cast<Kind>(header.kind);
  if (header.is_failure()) return fmt::format("a failure: {}", header.text.data());
  std::string text = name_of(kind);
  if (kind < Kind::kBarrier) {
    Shape shape;
    for (int axis = 0; axis < header.axes; ++axis) shape.push_back(header.extents[static_cast<std::size_t>(axis)]);
    text +=
        fmt::format(" of {} {} on {}", static_cast<DType>(header.dtype), shape, header.device == 0 ? "cpu" : "cuda");
    if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter) {
      text += fmt::format(", {}", name_of(static_cast<ReduceOp>(header.op)));
    }
    if (kind == Kind::kBroadcast) text += fmt::format(", root {}", header.root);
  }
  if (header.text[0] != '\0') text += fmt::format(" for {}", header.text.data());
  return text + fmt::format(", call {}", header.number);
}

Exchange::Exchange(MPI_Comm comm, int rank, int size, const Header& mine)
    : rank_(rank), size_(size), buffers_(new Buffers) {
  const auto count = static_cast<std::size_t>(size);
  buffers_->mine = mine;
  buffers_->theirs.resize(count);
  buffers_->requests.assign(2 * count, MPI_REQUEST_NULL);
  const std::lock_guard lock(mpi_mutex());
  for (std::size_t r = 0; r < count; ++r) {
    if (static_cast<int>(r) == rank) continue;
    check(MPI_Irecv(&buffers_->theirs[r], sizeof(Header), MPI_BYTE, static_cast<int>(r), kHeaderTag, comm,
                    &buffers_->requests[r]),
          r);
    check(MPI_Isend(&buffers_->mine, sizeof(Header), MPI_BYTE, static_cast<int>(r), kHeaderTag, comm,
                    &buffers_->requests[count + r]),
          count + r);
  }
}

// The request's place identifies the other rank.
void Exchange::check(int status, std::size_t request) const {
  if (status == MPI_SUCCESS) return;
  const auto count = static_cast<std::size_t>(size_);
  const std::string call = fmt::format("{}: a header {} rank {}", describe(buffers_->mine),
                                       request < count ? "from" : "to", request % count);
  check_mpi(status, call.c_str());
}

Exchange::~Exchange() {
  if (done_) delete buffers_;
}

bool Exchange::poll() {
  if (done_) return true;
  int done = 1;
  const std::lock_guard lock(mpi_mutex());
  for (std::size_t i = 0; i < buffers_->requests.size(); ++i) {
    int one = 0;
    check(MPI_Test(&buffers_->requests[i], &one, MPI_STATUS_IGNORE), i);
    done &= one;
  }
  done_ = done != 0;
  return done_;
}

std::string Exchange::mismatch() const {
  for (int r = 0; r < size_; ++r) {
    const Header& other = buffers_->theirs[static_cast<std::size_t>(r)];
    if (r == rank_ || buffers_->requests[static_cast<std::size_t>(r)] != MPI_REQUEST_NULL) continue;
    if (other.is_failure()) return fmt::format("rank {} failed: {}", r, other.text.data());
    if (other == buffers_->mine) continue;
    return fmt::format(
        "every rank must call the same operations with the same shapes and dtypes in the same order; got {} on rank "
        "{} and {} on rank {}",
        describe(buffers_->mine), rank_, describe(other), r);
  }
  return {};
}

std::string Exchange::missing() const {
  std::string ranks;
  int count = 0;
  for (int r = 0; r < size_; ++r) {
    // A rank that was killed after it had sent its header never receives this one's.
    const bool has_come = buffers_->requests[static_cast<std::size_t>(r)] == MPI_REQUEST_NULL;
    const bool has_gone = buffers_->requests[static_cast<std::size_t>(size_ + r)] == MPI_REQUEST_NULL;
    if (has_come && has_gone) continue;
    ranks += fmt::format("{}{}", count++ == 0 ? "" : ", ", r);
  }
  if (count == 0) return {};
  return fmt::format("rank{} {}", count == 1 ? "" : "s", ranks);
}

}  // namespace adjoint::distributed
