#pragma once

#include <vector>

#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/message.h"

namespace starling::dist::ps {

// Shares rows of a tensor that is cut by rows out among its keys, and puts answers together again.
class RowRoutes {
 public:
  // rows: i64[n], any order, repeats allowed. Throws if one is outside of the tensor.
  RowRoutes(const KeyTable& keys, std::size_t tensor, const Tensor& rows);

  Bytes rows(const Key& key) const;                       // numbers within the key
  Bytes values(const Key& key, const Tensor& all) const;  // of the key's rows, from values [n, …]
  // Copies what a server sent for its rows to their places in `all`; false: not as many as asked for.
  bool place(const Key& key, const Bytes& values, const Tensor& all) const;

 private:
  const std::vector<std::int64_t>& places(const Key& key) const;

  std::vector<std::int64_t> rows_;
  std::size_t row_bytes_ = 0;
  std::int64_t row_size_ = 1;
  std::uint32_t first_ = 0;                        // id of the tensor's first key
  std::vector<std::vector<std::int64_t>> places_;  // by key: positions in `rows`
};

}  // namespace starling::dist::ps
