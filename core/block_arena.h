// Where the blocks of captured steps lie: addresses that stay, in segments of a device's memory. Bookkeeping alone.
//
// A graph is replayed with the addresses that it was captured with. Within a capture, blocks come and go in the order
// of one stream, so that one that was freed is handed out again. Captures share the arena, for their replays follow
// each other: what one graph leaves behind between replays it keeps, and everything else another may write over.
#pragma once

#include <adjoint/core/export.h>

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace adjoint::detail {

/// Any thread may release blocks; allocations are those of one capture at a time.
class ADJOINT_API BlockArena {
 public:
  /// What the segments are made of. `take` gives memory that is ready to use, or null where there is none.
  struct Source {
    std::function<void*(std::size_t nbytes)> take;
    std::function<void(void* data, std::size_t nbytes)> give_back;
  };
  /// The segments that a capture's blocks have lain in, which stay while it lives.
  class Use;
  struct Block {
    void* data;
    std::size_t nbytes;  // rounded up
    std::string made_by;
  };

  /// Blocks below half of `least` bytes share segments of that size, so that a small one that stays does not hold a
  /// large segment; one that fits in no hole of a larger one's has a segment of its own size.
  BlockArena(Source source, std::size_t least);
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  /// Blocks from here on are those of a new capture, until the next call.
  std::shared_ptr<Use> begin();
  /// `nbytes` > 0 bytes at a multiple of 512; null where `limit` bytes of segments, or the source, do not give them.
  void* allocate(std::size_t nbytes, std::size_t limit, const char* made_by);
  void release(void* data) noexcept;
  /// The capture that began last has allocated the block that `data` points into, and it lives.
  bool is_new(const void* data) const;
  /// Of those, the ones that live.
  std::vector<Block> new_blocks() const;

  /// Bytes of all segments.
  std::size_t held() const;

 private:
  struct Piece {  // a block, or a hole
    std::size_t nbytes;
    bool used;
    std::size_t capture;
    std::string made_by;
  };
  struct Segment {
    std::byte* data;
    std::size_t nbytes;
    bool small = false;
    std::size_t live = 0;                 // blocks
    std::size_t users = 0;                // captures
    std::map<std::size_t, Piece> pieces;  // by offset; together the whole segment
  };
  using Segments = std::list<Segment>;

  void* place(Segment& segment, std::map<std::size_t, Piece>::iterator hole, std::size_t nbytes, const char* made_by);
  const Segment* find(const void* data) const;
  void give_back_idle() noexcept;

  Source source_;
  std::size_t least_;
  mutable std::mutex mutex_;
  Segments segments_;
  std::size_t held_ = 0, captures_ = 0;
  std::weak_ptr<Use> use_;  // of the capture that began last
};

class ADJOINT_API BlockArena::Use {
 public:
  explicit Use(BlockArena& arena) : arena_(arena) {}
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  friend class BlockArena;
  BlockArena& arena_;
  std::set<Segment*> segments_;
};

}  // namespace adjoint::detail
