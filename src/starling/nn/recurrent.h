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

// What a recurrent layer may begin with, and what it gives back: y of the last layer for all steps, and the last states
// [layers · directions, n, hidden].
struct RecurrentState {
  Tensor h = {};
  Tensor c = {};        // Lstm only
  Tensor lengths = {};  // i64[n]: later steps leave the state alone and their outputs are 0
};
struct RecurrentResult {
  Tensor y;
  Tensor h;
  Tensor c;
};

// Layers of recurrent cells over sequences [t, n, in]. Gates and both biases are PyTorch's (ops/rnn.h); all begin
// uniform in ±1/√hidden. Parameters of the first layer are called w_ih, w_hh, b_ih and b_hh, those of others have _l1
// and so on behind, of the way back _l0_reverse. One input: y from a state of zeros. As a list: (x, h, c, lengths),
// those behind x may be missing, → (y, h, and for Lstm c).
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

// One step: (x [n, in], h [n, hidden], and for LstmCell c) → (h, c) after it; missing states are zeros. Parameters are
// those of one layer above.
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

// The last state of the last layer, both directions beside each other: [n, directions · hidden]. Wraps a recurrent
// layer; what a classifier of sequences reads.
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
