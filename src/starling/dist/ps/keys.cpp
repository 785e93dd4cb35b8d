#include "starling/dist/ps/keys.h"

#include <algorithm>
#include <numeric>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

constexpr double kSmall = 0.04;        // of a server's share: tensors up to this are not cut
constexpr std::int64_t kAligned = 16;  // elements: pieces begin on cache lines if that hardly changes their sizes

std::int64_t row_elements(const TensorType& type) {
  return type.shape.rank() == 0 || type.shape[0] == 0 ? 1 : type.shape.numel() / type.shape[0];
}

// Assigns pieces to servers: each to the one that holds least.
class KeyAssignment {
 public:
  KeyAssignment(const std::vector<ServedTensor>& tensors, int servers)
      : tensors_(tensors), loads_(static_cast<std::size_t>(servers)), pieces_(tensors.size()) {
    double all = 0;
    for (const auto& tensor : tensors) all += static_cast<double>(bytes_of(tensor.type));
    small_ = kSmall * all / servers;
    for (const std::size_t i : largest_first()) assign(i);
  }

  const std::vector<std::vector<Key>>& pieces() const { return pieces_; }
  const std::vector<std::size_t>& loads() const { return loads_; }

 private:
  std::vector<std::size_t> largest_first() const {
    std::vector<std::size_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto bytes = [&](std::size_t i) { return bytes_of(tensors_[i].type); };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return bytes(a) > bytes(b); });
    return order;
  }

  std::vector<int> emptiest_first() const {
    std::vector<int> order(loads_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto load = [&](int server) { return loads_[static_cast<std::size_t>(server)]; };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return load(a) < load(b); });
    return order;
  }

  // Elements that stay together.
  std::int64_t unit_of(const ServedTensor& tensor) const {
    if (tensor.by_rows) return row_elements(tensor.type);
    const auto share = tensor.type.shape.numel() / static_cast<std::int64_t>(loads_.size());
    return static_cast<double>(share) * kSmall > static_cast<double>(kAligned) ? kAligned : 1;
  }

  void assign(std::size_t i) {
    const ServedTensor& tensor = tensors_[i];
    const std::int64_t all = tensor.type.shape.numel(), unit = unit_of(tensor), units = (all + unit - 1) / unit;
    const bool cut = !tensor.whole && static_cast<double>(bytes_of(tensor.type)) > small_;
    const auto count = cut ? std::clamp<std::int64_t>(units, 1, static_cast<std::int64_t>(loads_.size())) : 1;
    const auto servers = emptiest_first();
    for (std::int64_t p = 0, begin = 0; p < count; ++p) {  // the first ones are larger by a unit
      const std::int64_t size = std::min((units / count + (p < units % count ? 1 : 0)) * unit, all - begin);
      add(i, servers[static_cast<std::size_t>(p)], begin, size);
      begin += size;
    }
  }

  void add(std::size_t tensor, int server, std::int64_t begin, std::int64_t size) {
    pieces_[tensor].push_back({0, static_cast<std::uint32_t>(tensor), server, begin, size});
    loads_[static_cast<std::size_t>(server)] += static_cast<std::size_t>(size) * size_of(tensors_[tensor].type.dtype);
  }

  const std::vector<ServedTensor>& tensors_;
  std::vector<std::size_t> loads_;
  std::vector<std::vector<Key>> pieces_;
  double small_ = 0;
};

}  // namespace

KeyTable::KeyTable(std::vector<ServedTensor> tensors, int servers) : servers_(servers), tensors_(std::move(tensors)) {
  check(servers >= 1 && !tensors_.empty(), "[ps] expected at least one server and one tensor, got {} and {}", servers,
        tensors_.size());
  const KeyAssignment assigned(tensors_, servers);
  for (const auto& pieces : assigned.pieces()) {
    first_.push_back(keys_.size());
    for (Key key : pieces) {
      key.id = static_cast<std::uint32_t>(keys_.size());
      keys_.push_back(key);
    }
  }
  first_.push_back(keys_.size());
  for (int s = 0; s < servers; ++s)
    check(std::ranges::any_of(keys_, [&](const Key& key) { return key.server == s; }),
          "[ps] expected at most as many servers as there are pieces of tensors, got {} servers and {} pieces", servers,
          keys_.size());
}

std::span<const Key> KeyTable::keys_of(std::size_t tensor) const {
  check(tensor < tensors_.size(), "[ps] expected a tensor in [0, {}), got {}", tensors_.size(), tensor);
  return std::span(keys_).subspan(first_[tensor], first_[tensor + 1] - first_[tensor]);
}

std::vector<Key> KeyTable::held_by(int server) const {
  std::vector<Key> held;
  std::ranges::copy_if(keys_, std::back_inserter(held), [&](const Key& key) { return key.server == server; });
  return held;
}

std::int64_t KeyTable::row_size(std::size_t tensor) const { return row_elements(tensors_.at(tensor).type); }

TensorType KeyTable::type_of(const Key& key) const {
  TensorType type = tensors_[key.tensor].type;
  if (key.size == type.shape.numel()) return type;
  const std::int64_t row = row_size(key.tensor);
  if (key.begin % row != 0 || key.size % row != 0) return {type.dtype, {key.size}};
  type.shape[0] = key.size / row;
  return type;
}

std::size_t KeyTable::bytes(const Key& key) const {
  return static_cast<std::size_t>(key.size) * size_of(tensors_[key.tensor].type.dtype);
}

std::size_t KeyTable::bytes(int server) const {
  std::size_t sum = 0;
  for (const auto& key : keys_) sum += key.server == server ? bytes(key) : 0;
  return sum;
}

std::size_t KeyTable::largest_key() const {
  std::size_t largest = 0;
  for (const auto& key : keys_) largest = std::max(largest, bytes(key));
  return largest;
}

std::size_t most_bytes(const KeyTable& keys) {
  return std::max<std::size_t>({1 << 16, 2 * keys.largest_key(), 2 * keys.tensors().size() * sizeof(double)});
}

std::size_t KeyTable::find(const std::string& name) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return i;
    names.push_back(tensors_[i].name);
  }
  const std::string near = nearest(name, names);
  fail("[ps] expected a tensor that servers hold, got '{}'{}", name,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

}  // namespace starling::dist::ps
