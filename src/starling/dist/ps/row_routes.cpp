#include "starling/dist/ps/row_routes.h"

#include <algorithm>

#include "starling/base/bytes.h"
#include "starling/base/error.h"

namespace starling::dist::ps {

RowRoutes::RowRoutes(const KeyTable& keys, std::size_t tensor, const Tensor& rows)
    : row_size_(std::max<std::int64_t>(keys.row_size(tensor), 1)) {
  const ServedTensor& served = keys.tensors()[tensor];
  check(rows.dtype() == DType::i64 && rows.rank() == 1 && rows.contiguous(), "[ps] expected rows i64[n], got {}",
        to_string(rows.type()));
  rows_.assign(rows.data<std::int64_t>(), rows.data<std::int64_t>() + rows.numel());
  row_bytes_ = static_cast<std::size_t>(row_size_) * size_of(served.type.dtype);
  const auto pieces = keys.keys_of(tensor);
  first_ = pieces[0].id;
  places_.resize(pieces.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    check(rows_[i] >= 0 && rows_[i] < served.type.shape[0], "[ps] expected rows of '{}' in [0, {}), got {}",
          served.name, served.type.shape[0], rows_[i]);
    const auto after = std::ranges::upper_bound(pieces, rows_[i] * row_size_, {}, &Key::begin);
    places_[static_cast<std::size_t>(after - pieces.begin()) - 1].push_back(static_cast<std::int64_t>(i));
  }
}

const std::vector<std::int64_t>& RowRoutes::places(const Key& key) const { return places_[key.id - first_]; }

Bytes RowRoutes::rows(const Key& key) const {
  const auto numbers = std::make_shared<std::vector<std::int64_t>>();
  for (const auto i : places(key)) numbers->push_back(rows_[static_cast<std::size_t>(i)] - key.begin / row_size_);
  return {numbers, reinterpret_cast<const std::byte*>(numbers->data()), numbers->size() * sizeof(std::int64_t)};
}

Bytes RowRoutes::values(const Key& key, const Tensor& all) const {
  if (places(key).size() == rows_.size()) return share(all);
  const auto copy = std::make_shared<std::vector<std::byte>>(places(key).size() * row_bytes_);
  const auto* from = static_cast<const std::byte*>(all.raw());
  for (std::size_t i = 0; i < places(key).size(); ++i)
    copy_bytes(copy->data() + i * row_bytes_, from + static_cast<std::size_t>(places(key)[i]) * row_bytes_, row_bytes_);
  return {copy, copy->data(), copy->size()};
}

bool RowRoutes::place(const Key& key, const Bytes& values, const Tensor& all) const {
  if (values.size != places(key).size() * row_bytes_) return false;
  auto* to = static_cast<std::byte*>(all.raw());
  for (std::size_t i = 0; i < places(key).size(); ++i)
    copy_bytes(to + static_cast<std::size_t>(places(key)[i]) * row_bytes_, values.data + i * row_bytes_, row_bytes_);
  return true;
}

}  // namespace starling::dist::ps
