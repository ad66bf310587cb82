#include <adjoint/core/memory/block_arena.h>

#include <adjoint/core/base/check.h>

#include <iterator>
#include <utility>

namespace adjoint::detail {
namespace {

constexpr std::size_t kAlignment = 512;  // cudaMalloc's alignment

std::size_t rounded(std::size_t nbytes, std::size_t unit) { return (nbytes + unit - 1) / unit * unit; }

}  // namespace

BlockArena::BlockArena(Source source, std::size_t least)
    : source_(std::move(source)), least_(rounded(least, kAlignment)) {}

BlockArena::~BlockArena() {
  for (const Segment& segment : segments_) source_.give_back(segment.data, segment.nbytes);
}

BlockArena::Use::~Use() {
  const std::lock_guard lock(arena_.mutex_);
  for (Segment* segment : segments_) --segment->users;
  arena_.give_back_idle();
}

std::shared_ptr<BlockArena::Use> BlockArena::begin() {
  auto use = std::make_shared<Use>(*this);
  const std::lock_guard lock(mutex_);
  ++captures_;
  use_ = use;
  return use;
}

void* BlockArena::allocate(std::size_t nbytes, std::size_t limit, const char* made_by) {
  if (nbytes > limit) return nullptr;  // so rounding it cannot overflow
  const std::size_t size = rounded(nbytes, kAlignment);
  const bool small = size < least_ / 2;
  {
    // The smallest hole in which it fits, and of those the one at the lowest address, so that large holes stay whole.
    const std::lock_guard lock(mutex_);
    Segment* best = nullptr;
    std::map<std::size_t, Piece>::iterator hole;
    for (Segment& segment : segments_) {
      if (segment.small != small) continue;
      for (auto at = segment.pieces.begin(); at != segment.pieces.end(); ++at) {
        if (at->second.used || at->second.nbytes < size) continue;
        if (best != nullptr && hole->second.nbytes <= at->second.nbytes) continue;
        best = &segment;
        hole = at;
      }
    }
    if (best != nullptr) return place(*best, hole, size, made_by);
  }
  // A large block's segment has exactly its size: the remainder of a larger one is often useless to the next block, and
  // amounted to two fifths of a training step's memory (bench/lab/LOG.md).
  const std::size_t held = this->held();
  std::size_t wanted = small ? least_ : size;
  if (held + wanted > limit || held + wanted < wanted) wanted = size;
  if (held + wanted > limit) return nullptr;
  auto* data = static_cast<std::byte*>(source_.take(wanted));
  if (data == nullptr && wanted > size) data = static_cast<std::byte*>(source_.take(wanted = size));
  if (data == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  Segment& segment = segments_.emplace_back(Segment{data, wanted, small, 0, 0, {}});
  held_ += wanted;
  const auto hole = segment.pieces.emplace(0, Piece{wanted, false, 0, {}}).first;
  return place(segment, hole, size, made_by);
}

void* BlockArena::place(Segment& segment, std::map<std::size_t, Piece>::iterator hole, std::size_t nbytes,
                        const char* made_by) {
  const std::shared_ptr<Use> use = use_.lock();
  ADJOINT_ASSERT(use != nullptr, "an arena's block belongs to a capture; got none");
  const auto [offset, piece] = *hole;
  if (piece.nbytes > nbytes) {
    segment.pieces.emplace(offset + nbytes, Piece{piece.nbytes - nbytes, false, 0, {}});
  }
  hole->second = {nbytes, true, captures_, made_by == nullptr ? "" : made_by};
  ++segment.live;
  if (use->segments_.insert(&segment).second) ++segment.users;
  return segment.data + offset;
}

void BlockArena::release(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  auto* const segment = const_cast<Segment*>(find(data));
  ADJOINT_ASSERT(segment != nullptr, "an arena must hold what it releases");
  std::map<std::size_t, Piece>& pieces = segment->pieces;
  auto piece = pieces.find(static_cast<std::size_t>(static_cast<std::byte*>(data) - segment->data));
  ADJOINT_ASSERT(piece != pieces.end() && piece->second.used, "an arena must hold what it releases");
  piece->second.used = false;
  --segment->live;
  if (piece != pieces.begin() && !std::prev(piece)->second.used) {
    const auto before = std::prev(piece);
    before->second.nbytes += piece->second.nbytes;
    pieces.erase(piece);
    piece = before;
  }
  if (const auto after = std::next(piece); after != pieces.end() && !after->second.used) {
    piece->second.nbytes += after->second.nbytes;
    pieces.erase(after);
  }
  give_back_idle();
}

const BlockArena::Segment* BlockArena::find(const void* data) const {
  for (const Segment& segment : segments_) {
    if (data >= segment.data && data < segment.data + segment.nbytes) return &segment;
  }
  return nullptr;
}

bool BlockArena::is_new(const void* data) const {
  const std::lock_guard lock(mutex_);
  const Segment* const segment = find(data);
  if (segment == nullptr) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - segment->data);
  const Piece& piece = std::prev(segment->pieces.upper_bound(offset))->second;
  return piece.used && piece.capture == captures_;
}

std::vector<BlockArena::Block> BlockArena::new_blocks() const {
  const std::lock_guard lock(mutex_);
  std::vector<Block> blocks;
  for (const Segment& segment : segments_) {
    for (const auto& [offset, piece] : segment.pieces) {
      if (piece.used && piece.capture == captures_)
        blocks.push_back({segment.data + offset, piece.nbytes, piece.made_by});
    }
  }
  return blocks;
}

// Gives back existing segments that no capture uses and that hold no block.
void BlockArena::give_back_idle() noexcept {
  for (auto at = segments_.begin(); at != segments_.end();) {
    if (at->live > 0 || at->users > 0) {
      ++at;
      continue;
    }
    held_ -= at->nbytes;
    source_.give_back(at->data, at->nbytes);
    at = segments_.erase(at);
  }
}

std::size_t BlockArena::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace adjoint::detail
