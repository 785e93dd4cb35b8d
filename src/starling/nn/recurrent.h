#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

struct RecurrentOptions {
  std::int64_t in = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 1;
  bool bidirectional = false;
  double dropout = 0;        // between layers, while training
  bool batch_first = false;  // x and y are [n, t, ..] instead of [t, n, ..]
  bool bias = true;
  bool relu = false;  // Rnn only: relu instead of tanh
};
using LstmOptions = RecurrentOptions;

// Initial state of a recurrent layer, and its result: y of the last layer for all steps, and the final states [layers ·
// directions, n, hidden].
struct RecurrentState {
  Tensor h = {};
  Tensor c = {};        // Lstm only
  Tensor lengths = {};  // i64[n]: steps beyond the length keep the state and output 0
};
struct RecurrentResult {
  Tensor y;
  Tensor h;
  Tensor c;
};

// Layers of recurrent cells over sequences [t, n, in]. Gates and both biases are PyTorch's (ops/api/rnn.h); all
// parameters start uniform in ±1/√hidden. The first layer's are named w_ih, w_hh, b_ih and b_hh; later layers have the
// suffix _l1 and so on, the reverse direction _l0_reverse. One input: y from a zero state. As a list: (x, h, c,
// lengths), all but x optional, → (y, h, and for Lstm c).
class Recurrent : public Module {
 public:
  RecurrentResult run(const Tensor& x, const RecurrentState& begin = {});

 protected:
  enum class Cell : std::uint8_t { rnn, gru, lstm };
  Recurrent(Cell cell, const RecurrentOptions& options);
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  struct Weights {
    Tensor *w_ih, *w_hh, *b_ih = nullptr, *b_hh = nullptr;
  };
  Cell cell_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;
};

class Rnn : public Recurrent {
 public:
  explicit Rnn(const RecurrentOptions& options) : Recurrent(Cell::rnn, options) {}
};
class Gru : public Recurrent {
 public:
  explicit Gru(const RecurrentOptions& options) : Recurrent(Cell::gru, options) {}
};
class Lstm : public Recurrent {
 public:
  explicit Lstm(const RecurrentOptions& options) : Recurrent(Cell::lstm, options) {}
};

// One step of a cell: (x [n, in], h [n, hidden], and for LstmCell c) → (h, c) after it; missing states are zeros.
// Parameters are those of one layer above.
struct CellOptions {
  std::int64_t in = 0;
  std::int64_t hidden = 0;
  bool bias = true;
  bool relu = false;  // RnnCell only
  static Settings settings();
};
class RecurrentCell : public Recurrent {
 protected:
  RecurrentCell(Cell cell, const CellOptions& options)
      : Recurrent(cell, {.in = options.in, .hidden = options.hidden, .bias = options.bias, .relu = options.relu}) {}
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;
};
class RnnCell : public RecurrentCell {
 public:
  explicit RnnCell(const CellOptions& options) : RecurrentCell(Cell::rnn, options) {}
};
class GruCell : public RecurrentCell {
 public:
  explicit GruCell(const CellOptions& options) : RecurrentCell(Cell::gru, options) {}
};
class LstmCell : public RecurrentCell {
 public:
  explicit LstmCell(const CellOptions& options) : RecurrentCell(Cell::lstm, options) {}
};

// Wrapper of a recurrent layer that returns the final state of the last layer, both directions concatenated: [n,
// directions · hidden]. For classifiers of sequences.
class LastState : public Module {
 public:
  LastState(std::shared_ptr<Recurrent> layer, bool bidirectional);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<Recurrent> layer_;
  std::int64_t directions_;
};

}  // namespace starling::nn
