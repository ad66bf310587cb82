// Places the blocks of captured steps at addresses that stay, in segments of a device's memory. Only bookkeeping.
//
// A graph is replayed with the addresses of its capture. Within a capture, blocks come and go in the order of one
// stream, so a freed block is handed out again. Captures share the arena, because their replays follow each other:
// memory whose contents one graph keeps between replays stays its own, and another graph may overwrite everything else.
#pragma once

#include <adjoint/core/base/export.h>

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

/// Any thread may release blocks; only one capture at a time allocates.
class ADJOINT_API BlockArena {
 public:
  /// The source of the segments. `take` returns memory that is ready to use, or null if there is none.
  struct Source {
    std::function<void*(std::size_t nbytes)> take;
    std::function<void(void* data, std::size_t nbytes)> give_back;
  };
  /// The segments that have held a capture's blocks, which stay while it lives.
  class Use;
  struct Block {
    void* data;
    std::size_t nbytes;  // rounded up
    std::string made_by;
  };

  /// Blocks below half of `least` bytes share segments of that size, so that a small long-lived block does not hold a
  /// large segment. A larger block that fits in no hole gets a segment of its own size.
  BlockArena(Source source, std::size_t least);
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  /// Blocks belong to a new capture until the next call.
  std::shared_ptr<Use> begin();
  /// `nbytes` > 0 bytes at a multiple of 512; null if `limit` bytes of segments, or the source, cannot provide them.
  void* allocate(std::size_t nbytes, std::size_t limit, const char* made_by);
  void release(void* data) noexcept;
  /// Returns true if the latest capture has allocated the block that `data` points into, and the block lives.
  bool is_new(const void* data) const;
  /// The live blocks of the latest capture.
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
  std::weak_ptr<Use> use_;  // of the latest capture
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
