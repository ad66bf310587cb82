// The division of fused attention into blocks and tiles.
//
// A block keeps 64 rows per warpgroup of one or two tensors in shared memory, and tiles of two others pass through a
// ring. With the kept X' and Y' and the moving X and Y, whose rows are the scores' columns:
//
//   part        kept   moving  scores   result
//   kForward    Q      K, V    Q K^T    O = P V
//   kQuery      Q, dO  K, V    Q K^T    dQ = dS K,   dS = P (dO V^T - delta)
//   kKeyValue   K, V   Q, dO   K Q^T    dV = P^T dO, dK = dS^T Q
//   kKey        K, V   Q, dO   K Q^T    dK alone: with 256 columns, registers do not hold both
//   kValue      K      Q, dO   K Q^T    dV alone
//
// Scores, and the operand of the second product that is computed from them, stay in registers. Gradients need two
// passes, one by queries and one by keys, so that every sum has one owner and a fixed order.
#pragma once

#include <adjoint/ops/conv/base/arithmetic.h>

namespace adjoint::cuda::attention {

enum class Part { kForward, kQuery, kKeyValue, kKey, kValue };

inline constexpr int kTeam = 128;           // threads: a warpgroup
inline constexpr int kTeamRows = 64;        // of the scores
inline constexpr int kLineBytes = 128;      // of a row, in one swizzled block
inline constexpr int kBarrierBytes = 1024;  // keeps operands aligned
inline constexpr int kStatistics = 3;       // log-sum-exp, delta and the row's maximum, of the moving rows

/// kHead: the elements of a row in shared memory, 64, 128 or 256; shorter rows end with zeros.
template <Arithmetic kArithmetic_, int kHead_, Part kPart_>
struct Form {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr int kHead = kHead_;
  static constexpr Part kPart = kPart_;
  static constexpr bool kHalf = kArithmetic != Arithmetic::kTF32;
  static constexpr bool kForward = kPart == Part::kForward;
  static constexpr bool kByKey = kPart == Part::kKeyValue || kPart == Part::kKey || kPart == Part::kValue;
  /// The products of a backward part: with the moving X, of dS, and with the moving Y, of P.
  static constexpr bool kWithX = kPart == Part::kQuery || kPart == Part::kKeyValue || kPart == Part::kKey;
  static constexpr bool kWithY = kPart == Part::kKeyValue || kPart == Part::kValue;
  static constexpr bool kKeepsY = kWithX;

  static constexpr int kElementBytes = element_bytes(kArithmetic);
  static constexpr int kRowBytes = kHead * kElementBytes;
  static constexpr int kLines = kRowBytes / kLineBytes;
  static constexpr int kTeams = kRowBytes > 512 ? 1 : kRowBytes > 128 || kByKey ? 2 : 3;
  static constexpr int kRows = kTeams * kTeamRows;
  /// Moving rows of a tile: as many as registers hold, and shared memory, twice if possible.
  static constexpr int kColumns = kRowBytes > 512 || (!kHalf && !kForward && kRowBytes > 256) ? 32
                                  : kForward&& kHalf&& kRowBytes <= 256                       ? 128
                                                                                              : 64;
  static constexpr int kThreads = (kTeams + 1) * kTeam;  // one warp of the last warpgroup starts copies

  static constexpr int kKeptTileBytes = kTeamRows * kRowBytes;
  static constexpr int kKeptBytes = kTeams * kKeptTileBytes * (kKeepsY ? 2 : 1);
  static constexpr int kTileBytes = kColumns * kRowBytes;
  static constexpr int kStatisticBytes = kByKey ? kStatistics * kColumns * 4 : 0;
  static constexpr int kStageBytes = 2 * kTileBytes + kStatisticBytes;
  static constexpr int kMostBytes = 227 * 1024 - kBarrierBytes;
  static constexpr int kStages = kKeptBytes + 2 * kStageBytes <= kMostBytes ? 2 : 1;
  static constexpr int kSmemBytes = kBarrierBytes + kKeptBytes + kStages * kStageBytes;
  static_assert(kKeptBytes + kStages * kStageBytes <= kMostBytes);
};

}  // namespace adjoint::cuda::attention
