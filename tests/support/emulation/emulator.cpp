#include <adjoint/tests/support/emulation/emulator.h>

#include <adjoint/core/tensor/dtype.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#ifdef ADJOINT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Keeps the registers that a function keeps, and continues with another stack.
#if defined(__x86_64__)
extern "C" void adjoint_emulator_switch(void** from, void* to);
asm(R"(
  .text
  .globl adjoint_emulator_switch
  .type adjoint_emulator_switch, @function
adjoint_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size adjoint_emulator_switch, . - adjoint_emulator_switch
)");
#endif

namespace adjoint::emulation {
namespace {

#if defined(__x86_64__)
// swapcontext() asks the kernel for the mask of signals in each switch, which would be most of an emulation's time.
class Context {
 public:
  void begin(char* stack, std::size_t bytes, void (*function)()) {
    void** const end = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15});
    void** const top = end - 8;  // six registers, the address to resume at, and its return address
    std::fill(top, end, nullptr);
    top[6] = reinterpret_cast<void*>(function);
    stack_ = top;
  }
  void go_to(Context& other) { adjoint_emulator_switch(&stack_, other.stack_); }

 private:
  void* stack_ = nullptr;
};
#else
class Context {
 public:
  void begin(char* stack, std::size_t bytes, void (*function)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, function, 0);
    // AddressSanitizer would clear the whole of a stack in each switch to it and from it, did it know of one.
    context_.uc_stack = {};
  }
  void go_to(Context& other) { swapcontext(&context_, &other.context_); }

 private:
  ucontext_t context_{};
};
#endif

constexpr unsigned kMaxCluster = 4;
constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 256 * 1024;

/// A stack to run threads of kernels on, used again and again.
struct Fiber {
  Thread thread;
  Context context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  const std::function<bool()>* ready = nullptr;
  bool done = false;
  unsigned warp = 0;  // of the cluster's
  void* fake_stack = nullptr;
};

struct Collective {
  unsigned arrived = 0;
  std::uint64_t generation = 0;
  std::array<void*, kWarp> values{};
};

struct Barrier {
  int arrived = 0;
  std::uint64_t generation = 0;
};

struct Machine {
  Launch launch;
  const std::function<void()>* kernel = nullptr;
  std::deque<Fiber> fibers;
  Fiber* running = nullptr;
  Context scheduler;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  void* scheduler_fake_stack = nullptr;
  std::exception_ptr failure;
  std::vector<std::function<void()>> events;
  std::mt19937_64 random;
  std::map<std::pair<unsigned, int>, Barrier> barriers;
  std::vector<Collective> warps;
};

Machine machine;
alignas(1024) unsigned char arenas[kMaxCluster][kDynamicBytes];

void to_scheduler(Fiber& fiber) {
#ifdef ADJOINT_ASAN
  __sanitizer_start_switch_fiber(fiber.done ? nullptr : &fiber.fake_stack, machine.scheduler_stack,
                                 machine.scheduler_stack_bytes);
#endif
  fiber.context.go_to(machine.scheduler);
#ifdef ADJOINT_ASAN
  __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
#endif
}

void to_fiber(Fiber& fiber) {
  machine.running = &fiber;
#ifdef ADJOINT_ASAN
  __sanitizer_start_switch_fiber(&machine.scheduler_fake_stack, fiber.stack.get(), kStackBytes);
#endif
  machine.scheduler.go_to(fiber.context);
#ifdef ADJOINT_ASAN
  __sanitizer_finish_switch_fiber(machine.scheduler_fake_stack, nullptr, nullptr);
#endif
}

void fiber_main() {
  Fiber& fiber = *machine.running;
#ifdef ADJOINT_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &machine.scheduler_stack, &machine.scheduler_stack_bytes);
#endif
  try {
    (*machine.kernel)();
  } catch (...) {
    machine.failure = std::current_exception();
  }
  fiber.done = true;
  to_scheduler(fiber);
}

void start(Fiber& fiber) {
#ifdef ADJOINT_ASAN
  if (!fiber.done) __asan_unpoison_memory_region(fiber.stack.get(), kStackBytes);  // left by an unfinished thread
#endif
  fiber.done = false;
  fiber.ready = nullptr;
  fiber.context.begin(fiber.stack.get(), kStackBytes, fiber_main);
}

void do_one_event() {
  const std::size_t chosen = machine.random() % machine.events.size();
  std::swap(machine.events[chosen], machine.events.back());
  const std::function<void()> work = std::move(machine.events.back());
  machine.events.pop_back();
  work();
}

/// All threads of a cluster's blocks, to their ends.
void run_cluster() {
  std::vector<Fiber*> alive;
  for (Fiber& fiber : machine.fibers) {
    start(fiber);
    alive.push_back(&fiber);
  }
  // Half of the time one warp stops for a while, and the others run as far as they can without it.
  const std::uint64_t choices = 2 * machine.warps.size();
  std::uint64_t still = machine.random() % choices;
  bool all_go = false;
  while (!alive.empty()) {
    std::shuffle(alive.begin(), alive.end(), machine.random);
    if (machine.random() % 8 == 0) still = machine.random() % choices;
    bool moved = false;
    for (Fiber* fiber : alive) {
      if ((fiber->warp == still && !all_go) || (fiber->ready != nullptr && !(*fiber->ready)())) continue;
      fiber->ready = nullptr;
      to_fiber(*fiber);
      moved = true;
      if (machine.failure) std::rethrow_exception(machine.failure);
    }
    std::erase_if(alive, [](const Fiber* fiber) { return fiber->done; });
    // Asynchronous work is slow: now and then, or when nobody can do without it.
    if (!machine.events.empty() && (!moved || machine.random() % 2 == 0)) {
      do_one_event();
      moved = true;
    }
    if (!moved && all_go) throw std::runtime_error("emulated kernel: every thread waits for ever");
    all_go = !moved;
  }
  while (!machine.events.empty()) do_one_event();
}

float tf32(std::uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000U); }

float half_of(std::uint16_t bits, int operand) {
  return operand == 1 ? static_cast<float>(std::bit_cast<bfloat16>(bits))
                      : static_cast<float>(std::bit_cast<float16>(bits));
}

/// Shared memory at a place of a K-major operand: column n, 32-bit unit k of an instruction.
std::uint32_t operand_unit(std::uint64_t descriptor, int n, int k, unsigned rank) {
  const auto field = [&](int shift) { return static_cast<std::uint32_t>(descriptor >> shift & 0x3fff) << 4; };
  const std::uint32_t first = field(0), leading = field(16), stride = field(32);
  std::uint32_t address = first + static_cast<std::uint32_t>(n / 8) * stride;
  switch (descriptor >> 62) {
    case 0: address += static_cast<std::uint32_t>(k / 4 * static_cast<int>(leading) + n % 8 * 16 + k % 4 * 4); break;
    case 1:
      address += static_cast<std::uint32_t>(n % 8 * 128 + k * 4);
      address ^= (address >> 7 & 7U) << 4;
      break;
    default: throw std::runtime_error("emulated wgmma: swizzles of 64 and 32 bytes are not modelled");
  }
  if (address + 4 > kDynamicBytes) throw std::runtime_error("emulated wgmma: operand outside shared memory");
  std::uint32_t unit;
  std::memcpy(&unit, arenas[rank] + address, sizeof(unit));
  return unit;
}

/// Bits of half `k` of row or column n of an operand that is contiguous along the other axis than K: in 64s, or in
/// eights without swizzle.
std::uint16_t transposed_half(std::uint64_t descriptor, int n, int k, unsigned rank) {
  const auto field = [&](int shift) { return static_cast<std::uint32_t>(descriptor >> shift & 0x3fff) << 4; };
  std::uint32_t address = field(0);
  switch (descriptor >> 62) {
    case 0:
      address += static_cast<std::uint32_t>(n / 8) * field(32) + static_cast<std::uint32_t>(k / 8) * field(16) +
                 static_cast<std::uint32_t>(k % 8 * 16 + n % 8 * 2);
      break;
    case 1:
      address += static_cast<std::uint32_t>(n / 64) * field(16) + static_cast<std::uint32_t>(k / 8) * field(32) +
                 static_cast<std::uint32_t>(k % 8 * 128 + n % 64 * 2);
      address ^= (address >> 7 & 7U) << 4;
      break;
    default: throw std::runtime_error("emulated wgmma: swizzles of 64 and 32 bytes are not modelled");
  }
  if (address + 2 > kDynamicBytes) throw std::runtime_error("emulated wgmma: operand outside shared memory");
  std::uint16_t bits;
  std::memcpy(&bits, arenas[rank] + address, sizeof(bits));
  return bits;
}

}  // namespace

Thread& current() { return machine.running->thread; }
const Launch& launch() { return machine.launch; }

void run(const Launch& launch, const std::function<void()>& kernel) {
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  if (launch.cluster > kMaxCluster || launch.grid.x % launch.cluster != 0) {
    throw std::runtime_error("emulated launch: the grid must be a multiple of a cluster of at most 4 blocks");
  }
  machine.launch = launch;
  machine.kernel = &kernel;
  machine.random.seed(launch.seed);
  machine.failure = nullptr;
  machine.events.clear();
  machine.fibers.resize(threads * launch.cluster);
  for (unsigned z = 0; z < launch.grid.z; ++z) {
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; x += launch.cluster) {
        machine.barriers.clear();
        machine.warps.assign(threads * launch.cluster / kWarp + 1, {});
        for (unsigned i = 0; i < threads * launch.cluster; ++i) {
          const unsigned rank = i / threads, thread = i % threads;
          machine.fibers[i].thread = {};
          machine.fibers[i].warp = i / kWarp;
          machine.fibers[i].thread.rank = rank;
          machine.fibers[i].thread.block_index = {x + rank, y, z};
          machine.fibers[i].thread.index = {thread % launch.block.x, thread / launch.block.x % launch.block.y,
                                            thread / launch.block.x / launch.block.y};
        }
        std::memset(arenas, 0xff, launch.cluster * kDynamicBytes);  // NaN in every type
        try {
          run_cluster();
        } catch (...) {
          machine.fibers.clear();  // stacks that end in the middle of calls serve no other run
          throw;
        }
        for (unsigned rank = 0; rank < launch.cluster; ++rank) {
          const unsigned char *begin = arenas[rank] + launch.smem_bytes, *end = arenas[rank] + kDynamicBytes;
          if (std::find_if(begin, end, [](unsigned char byte) { return byte != 0xff; }) != end) {
            throw std::runtime_error("emulated kernel: writes after the end of its dynamic shared memory");
          }
        }
      }
    }
  }
}

void wait_until(const std::function<bool()>& ready) {
  if (ready()) return;
  Fiber& fiber = *machine.running;
  fiber.ready = &ready;
  to_scheduler(fiber);
}

void later(std::function<void()> work) { machine.events.push_back(std::move(work)); }

void block_barrier(int index, int count) {
  Barrier& barrier = machine.barriers[{current().rank, index}];
  const std::uint64_t generation = barrier.generation;
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  wait_until([&barrier, generation] { return barrier.generation != generation; });
}

void cluster_barrier() {
  Barrier& barrier = machine.barriers[{kMaxCluster, 0}];
  const std::uint64_t generation = barrier.generation;
  if (++barrier.arrived == static_cast<int>(machine.fibers.size())) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  wait_until([&barrier, generation] { return barrier.generation != generation; });
}

void warp_collective(void* value, const std::function<void(void* const*)>& work) {
  const Dim3& block = machine.launch.block;
  const Thread& thread = current();
  const unsigned within = (thread.index.z * block.y + thread.index.y) * block.x + thread.index.x;
  Collective& warp = machine.warps[machine.running->warp];
  const std::uint64_t generation = warp.generation;
  warp.values[within % kWarp] = value;
  if (++warp.arrived == kWarp) {
    if (work) work(warp.values.data());
    warp.arrived = 0;
    ++warp.generation;
  }
  wait_until([&warp, generation] { return warp.generation != generation; });
}

unsigned char* dynamic_smem(unsigned rank) { return arenas[rank]; }

std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(pointer) - arenas[current().rank]);
}

unsigned char* shared_pointer(std::uint32_t address) {
  unsigned char* const base = arenas[current().rank];  // variables that kernels declare __shared__ are elsewhere
  return base + static_cast<std::int32_t>(address);
}

void perform(const Copy& copy) {
  std::memset(copy.to, 0, copy.bytes);
  if (copy.valid > 0) std::memcpy(copy.to, copy.from, copy.valid);
}

void multiply_warp(const Product* const* lanes, unsigned rank, int warp) {
  const Product& first = *lanes[0];
  const bool half = first.operand != 0;
  // [unit's element][column] and [row][unit's element], units 0 to 7.
  const int depth = half ? 16 : 8;
  std::vector<float> b(static_cast<std::size_t>(depth * first.columns));
  const auto value = [&](std::uint32_t unit, int element) {
    return half ? half_of(static_cast<std::uint16_t>(unit >> (16 * element)), first.operand) : tf32(unit);
  };
  const auto shared_value = [&](std::uint64_t descriptor, bool transposed, int n, int k) {
    if (transposed) return half_of(transposed_half(descriptor, n, k, rank), first.operand);
    return value(operand_unit(descriptor, n, half ? k / 2 : k, rank), k % 2);
  };
  for (int n = 0; n < first.columns; ++n) {
    for (int k = 0; k < depth; ++k) {
      b[static_cast<std::size_t>(k * first.columns + n)] = shared_value(first.b, first.b_transposed, n, k);
    }
  }
  std::vector<float> sums(static_cast<std::size_t>(first.columns));
  for (int row = 0; row < 16; ++row) {
    const int g = row % 8, upper = row / 8;
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (int k = 0; k < depth; ++k) {
      const int unit = half ? k / 2 : k;
      const std::uint32_t from_register = lanes[4 * g + unit % 4]->a[2 * (unit / 4) + upper];
      const float a = first.a_shared != 0 ? shared_value(first.a_shared, first.a_transposed, 16 * warp + row, k)
                                          : value(from_register, k % 2);
      const float* from = b.data() + k * first.columns;
      for (int n = 0; n < first.columns; ++n) sums[static_cast<std::size_t>(n)] += a * from[n];
    }
    for (int n = 0; n < first.columns; ++n) {
      float& sum = lanes[4 * g + n % 8 / 2]->sums[n / 8 * 4 + 2 * upper + n % 2];
      sum = sums[static_cast<std::size_t>(n)] + (first.accumulate ? sum : 0.0F);
    }
  }
}

MBarrier& mbarrier(std::uint32_t address) { return *reinterpret_cast<MBarrier*>(shared_pointer(address)); }

void mbarrier_update(MBarrier& barrier, int arrivals, int bytes) {
  if (arrivals > barrier.pending) throw std::runtime_error("emulated mbarrier: more arrivals than it was made for");
  barrier.pending = static_cast<std::uint16_t>(barrier.pending - arrivals);
  barrier.bytes_and_phase += 2 * bytes;
  if (barrier.pending == 0 && barrier.bytes_and_phase >> 1 == 0) {
    barrier.pending = barrier.expected;
    barrier.bytes_and_phase ^= 1;
  }
}

bool mbarrier_complete(const MBarrier& barrier, std::uint32_t parity) {
  return static_cast<std::uint32_t>(barrier.bytes_and_phase & 1) != parity;
}

}  // namespace adjoint::emulation
