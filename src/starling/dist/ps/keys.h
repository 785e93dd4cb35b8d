#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::dist::ps {

// Tensor that servers hold.
struct ServedTensor {
  std::string name;
  TensorType type{};
  bool by_rows = false;  // cut between rows only, so that rows can be pushed and pulled alone
  bool whole = false;    // never cut
  // Options of its parameter group (optim::ParameterGroup).
  double lr_scale = 1;
  std::optional<double> weight_decay{};
};

// Piece of a tensor that one server holds: `size` elements from `begin` on, in row-major order.
struct Key {
  std::uint32_t id = 0;  // place in KeyTable::keys()
  std::uint32_t tensor = 0;
  int server = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// Table of the server that holds each piece: a function of the tensors and the number of servers, so that all workers
// and servers make the same table of their own. Large tensors are cut into a piece for every server, small ones lie
// where there is least: the fullest server holds at most 1.1 times the bytes of the emptiest one, unless `whole` or
// wide rows forbid it.
class KeyTable {
 public:
  // Throws if a server would hold nothing.
  KeyTable(std::vector<ServedTensor> tensors, int servers);

  int servers() const { return servers_; }
  const std::vector<ServedTensor>& tensors() const { return tensors_; }
  const std::vector<Key>& keys() const { return keys_; }   // by tensor, then by begin
  std::span<const Key> keys_of(std::size_t tensor) const;  // pieces of a tensor, by begin
  std::vector<Key> held_by(int server) const;              // by tensor
  TensorType type_of(const Key& key) const;                // whole rows keep their shape, other pieces are flat
  std::int64_t row_size(std::size_t tensor) const;         // elements of a row
  std::size_t bytes(const Key& key) const;
  std::size_t bytes(int server) const;
  std::size_t largest_key() const;                  // bytes
  std::size_t find(const std::string& name) const;  // throws, naming the nearest one

 private:
  int servers_;
  std::vector<ServedTensor> tensors_;
  std::vector<Key> keys_;
  std::vector<std::size_t> first_;  // by tensor: its first key; one more at the end
};

// Bytes of the largest part of a message about these keys: rows may be repeated.
std::size_t most_bytes(const KeyTable& keys);

}  // namespace starling::dist::ps
