// The messages between the server and its clients, on a stream socket. Numbers are little-endian. A connection carries
// one request at a time; its replies come in the order of its requests.
//
//   request: u32 magic "ADJ1", u32 count, `count` float32 elements: one input of the network, without the batch
//   reply:   u32 magic "ADJ1", u32 status, u32 batch, u32 row, u32 nbytes, then `nbytes` bytes
//
// The bytes are the elements of the result if the status is 0, and otherwise a message in UTF-8. `batch` is the size of
// the batch in which the network computed the result, and `row` the result's place in it.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace serve {

static_assert(std::endian::native == std::endian::little, "the messages are copied without conversion");

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x314A4441;

enum class Status : std::uint32_t {
  kDone = 0,
  kMalformed = 1,  // the server closes the connection
  kBusy = 2,       // the queue is full; the client may send the request again
  kFailed = 3,     // the network threw an error for this input
};

struct RequestHeader {
  std::uint32_t magic = kMagic, count = 0;
};

struct ReplyHeader {
  std::uint32_t magic = kMagic;
  Status status = Status::kDone;
  std::uint32_t batch = 0, row = 0, nbytes = 0;
};

/// A request on its way from its connection through the queue to a worker and back.
struct Request {
  std::uint64_t connection = 0;
  std::vector<std::byte> message;  // header and elements
  std::vector<std::byte> reply;
  Clock::time_point accepted{};

  const std::byte* elements() const { return message.data() + sizeof(RequestHeader); }
  /// Writes the reply, whose bytes are those at `payload`.
  void answer(ReplyHeader header, const void* payload);
  void refuse(Status status, std::string_view text);
};

using Requests = std::vector<std::unique_ptr<Request>>;

}  // namespace serve
