#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "starling/kernels/cpu/simd/block.h"

namespace starling {

// How an external input spreads over the [rows, cols] elements of a chain, all of it contiguous.
enum class Spread : std::uint8_t {
  full,    // rows * cols elements
  scalar,  // one element
  row,     // cols elements, repeated for each row (a bias)
  column,  // rows elements, each repeated along its row (a row's scale)
};

struct ChainInput {
  int bytes;  // of one element
  Spread spread;
};

// One call of a function. Slots are numbered inputs first, then temporaries, then outputs; unused operands are -1. A
// step reads inputs and whatever earlier steps wrote, outputs included.
struct ChainStep {
  BlockFn fn;
  std::array<int, 3> in;
  int out;
  std::array<double, 2> params{};
};

// A chain of elementwise functions run as one pass over memory: a block of a few hundred elements at a time goes
// through all steps while it stays in L1. Immutable once built; may run on several threads and instances at once.
class FusedChain {
 public:
  struct Spec {
    std::vector<ChainInput> inputs;
    int temporaries = 0;
    std::vector<int> output_bytes;  // bytes of one element of each output
    std::vector<ChainStep> steps;
  };

  // Throws when a step names a slot that does not exist, reads one not yet written, or writes an input.
  explicit FusedChain(Spec spec);

  // Bytes of scratch that `run` needs with this many threads.
  std::size_t scratch_bytes(int threads) const;

  // Computes outputs of rows * cols elements. An output may be the very array of a full input if no step reads that
  // input after the output is first written. `scratch` is at least scratch_bytes(num_threads()), any alignment. Never
  // allocates.
  void run(const void* const* inputs, void* const* outputs, std::int64_t rows, std::int64_t cols, void* scratch) const;

 private:
  struct Pass;
  int slots() const;
  std::size_t thread_bytes() const;
  void run_piece(const Pass& pass, std::int64_t begin, std::int64_t end, std::byte* scratch) const;
  void run_steps(std::byte* const* slot, unsigned scalars, std::int64_t n) const;

  Spec spec_;
  bool flat_ = true;  // no row or column input: the elements are one line
};

}  // namespace starling
