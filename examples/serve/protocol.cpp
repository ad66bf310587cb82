#include "protocol.h"

#include <cstring>

namespace serve {

void Request::answer(ReplyHeader header, const void* payload) {
  reply.resize(sizeof header + header.nbytes);
  std::memcpy(reply.data(), &header, sizeof header);
  if (header.nbytes > 0) std::memcpy(reply.data() + sizeof header, payload, header.nbytes);
}

void Request::refuse(Status status, std::string_view text) {
  answer({.status = status, .nbytes = static_cast<std::uint32_t>(text.size())}, text.data());
}

}  // namespace serve
