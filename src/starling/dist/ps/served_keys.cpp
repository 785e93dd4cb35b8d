#include "starling/dist/ps/served_keys.h"

#include <algorithm>
#include <cmath>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

const Bytes kNothing{};

constexpr std::int64_t kMostClock = std::int64_t{1} << 60;  // beyond any run; sums of clocks stay in range
constexpr double kMostFactor = 0x1p62;                      // of a command over vectors; numbers of portions are some

// Numbers of a peer that are used in sums.
Result<void> expect_numbers(const Header& header) {
  if (header.clock < 0 || header.clock > kMostClock)
    return failure("expected a clock in [0, {}], got {}", kMostClock, header.clock);
  if (!std::isfinite(header.lr) || !std::isfinite(header.weight))
    return failure("expected finite numbers, got a rate of {} and a weight of {}", header.lr, header.weight);
  return {};
}

const Bytes& part(std::span<const Bytes> parts, std::size_t i) { return i < parts.size() ? parts[i] : kNothing; }

// Steps that wait must not stand in memory that was lent for a call.
Step kept(Step step) {
  for (Push& push : step) {
    keep(push.rows);
    keep(push.values);
  }
  return step;
}

bool is_state_of(const std::string& name, const std::string& parameter) { return name.starts_with(parameter + "."); }

}  // namespace

ServedKeys::ServedKeys(KeyTable table, int server, const optim::OptimizerMaker& optimizer, const ClockOptions& clock,
                       PushCodec codec)
    : table_(std::move(table)),
      server_(server),
      clock_(clock),
      codec_(std::move(codec)),
      coded_bytes_(table_.tensors().size()) {
  check(server >= 0 && server < table_.servers(), "[ps] expected a server in [0, {}), got {}", table_.servers(),
        server);
  for (const Key& key : table_.held_by(server)) {
    auto shard = std::make_unique<Shard>(table_.tensors()[key.tensor], table_.type_of(key), optimizer);
    auto norms = shard->needs_norms() ? exchange_of(key) : std::nullopt;
    std::vector<std::uint64_t> last(static_cast<std::size_t>(clock.workers), 0);
    entries_.emplace(key.id, Entry{key, std::move(shard), Gate(clock), std::move(last), {}, std::move(norms)});
  }
}

std::optional<NormExchange> ServedKeys::exchange_of(const Key& key) const {
  std::vector<int> servers;
  for (const Key& other : table_.keys_of(key.tensor)) servers.push_back(other.server);
  return NormExchange(server_, std::move(servers), clock_.bound == 0 || clock_.merge == Merge::mean);
}

bool ServedKeys::exchanges_norms() const {
  return std::ranges::any_of(entries_, [](const auto& entry) { return entry.second.norms.has_value(); });
}

const ServedKeys::Entry* ServedKeys::find(std::uint32_t key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}
ServedKeys::Entry* ServedKeys::find(std::uint32_t key) {
  return const_cast<Entry*>(static_cast<const ServedKeys*>(this)->find(key));
}

std::string ServedKeys::label(const Entry& entry) const {
  return fmt::format("'{}' [{}, {})", table_.tensors()[entry.key.tensor].name, entry.key.begin,
                     entry.key.begin + entry.key.size);
}

Result<void> ServedKeys::expect_worker(const Header& header) const {
  if (header.worker < static_cast<std::uint32_t>(clock_.workers)) return {};
  return failure("expected a worker in [0, {}), got {}", clock_.workers, header.worker);
}

Result<void> ServedKeys::change(const Header& header, std::span<const Bytes> parts) {
  if (auto fits = header.verb == Verb::norms ? Result<void>() : expect_numbers(header); !fits) return fits;
  const bool counted = header.worker < static_cast<std::uint32_t>(clock_.workers);
  const int worker = static_cast<int>(header.worker);
  const auto all = [&](auto&& change) {
    for (auto& [id, entry] : entries_) make(entry, change(entry.gate));
    return Result<void>();
  };
  switch (header.verb) {
    case Verb::hello:
      if (!counted) return {};  // one who only looks on
      return all([&](Gate& gate) { return gate.join(worker, header.clock); });
    case Verb::tick:
      if (auto known = expect_worker(header); !known) return known;
      return all([&](Gate& gate) { return gate.tick(worker, header.clock); });
    case Verb::retire: return retire(header);
    case Verb::norms: return hear(header);
    case Verb::vectors: {
      const auto done = command(header);
      return done ? Result<void>() : Result<void>(done.failure());
    }
    default: break;
  }
  Entry* entry = find(header.key);
  if (entry == nullptr) return failure("expected one of its keys, got {}", header.key);
  if (header.verb == Verb::put) return put(*entry, parts);
  if (header.verb == Verb::put_state) return put_state(*entry, header, parts);
  return push(*entry, header, parts);
}

// One that retires by itself has pushed all pieces of its steps; of one that is lost some servers may have none.
Result<void> ServedKeys::retire(const Header& header) {
  if (header.slot >= static_cast<std::uint32_t>(clock_.workers))
    return failure("expected a worker in [0, {}) to retire, got {}", clock_.workers, header.slot);
  const int worker = static_cast<int>(header.slot);
  for (auto& [id, entry] : entries_) {
    make(entry, entry.gate.retire(worker));
    if (!entry.norms || header.worker == header.slot) continue;
    forgotten_ += static_cast<std::int64_t>(entry.norms->forget(worker));
  }
  return {};
}

Result<void> ServedKeys::put(Entry& entry, std::span<const Bytes> parts) {
  if (auto fits = entry.shard->accepts({}, part(parts, 0)); !fits) return failure("{}: {}", label(entry), fits.error());
  entry.shard->put(part(parts, 0));
  entry.portions.clear();  // a run begins
  return {};
}

Result<void> ServedKeys::put_state(Entry& entry, const Header& header, std::span<const Bytes> parts) {
  const auto state = entry.shard->state();
  if (header.slot >= state.size())
    return failure("{}: expected a tensor in [0, {}), got {}", label(entry), state.size(), header.slot);
  const std::size_t bytes = starling::bytes_of(state[header.slot].tensor);
  if (part(parts, 0).size != bytes)
    return failure("'{}': expected {} bytes, got {}", state[header.slot].name, bytes, part(parts, 0).size);
  entry.shard->put_state(header.slot, part(parts, 0));
  return {};
}

Result<void> ServedKeys::push(Entry& entry, const Header& header, std::span<const Bytes> parts) {
  if (auto known = expect_worker(header); !known) return known;
  std::uint64_t& last = entry.last[header.worker];
  if (header.number <= last) {
    ++repeats_;
    return {};
  }
  const bool of_portions = header.slot == kOfPortions;
  const Bytes& portions = of_portions && !parts.empty() ? parts.back() : kNothing;
  if (of_portions) parts = parts.first(parts.size() - std::min<std::size_t>(parts.size(), 1));
  auto push = read_push(entry, header, parts);
  if (!push) return failure("{}: {}", label(entry), push.error());
  if (!entry.shard->ready()) return failure("{}: expected weights before a gradient, got none yet", label(entry));
  if (!of_portions && header.slot >= static_cast<std::uint32_t>(kMostVectors))
    return failure("expected a vector in [0, {}), got {}", kMostVectors, header.slot);
  last = header.number;
  ++pushes_;
  if (header.form != kPlain) count_coded(entry, parts, push->values);
  if (header.slot > 0 && !of_portions) return add_portion(entry, *push, header);
  // A dropped push was still this clock's push.
  make(entry, takes_portions(entry, portions) ? entry.gate.push(std::move(*push))
                                              : entry.gate.tick(push->worker, push->clock));
  return {};
}

// Gradient of a push, decoded, whose sizes fit the key.
Result<Push> ServedKeys::read_push(const Entry& entry, const Header& header, std::span<const Bytes> parts) const {
  Push push{.worker = static_cast<int>(header.worker),
            .clock = header.clock,
            .seen = header.version,
            .weight = header.weight,
            .lr = header.lr};
  if (header.form != kPlain) {
    auto decoded = codec_.decode(header, table_.tensors()[entry.key.tensor], entry.shard->type(), parts);
    if (!decoded) return decoded.failure();
    push.values = std::move(*decoded);
    return push;
  }
  const bool sparse = parts.size() == 2;
  push.rows = sparse ? parts[0] : kNothing;
  push.values = part(parts, sparse ? 1 : 0);
  if (auto fits = entry.shard->accepts(push.rows, push.values); !fits) return fits.failure();
  return push;
}

void ServedKeys::count_coded(const Entry& entry, std::span<const Bytes> parts, const Bytes& values) {
  ++coded_;
  Coded& own = coded_bytes_[entry.key.tensor];
  for (const Bytes& part : parts) own.after += static_cast<double>(part.size);
  own.before += static_cast<double>(values.size);
}

Result<void> ServedKeys::hear_errors(const Header& header, std::span<const Bytes> parts) {
  if (auto known = expect_worker(header); !known) return known;
  std::vector<double> errors(2 * table_.tensors().size());  // and forms
  if (part(parts, 0).size != errors.size() * sizeof(double))
    return failure("expected {} compression errors, got {} bytes", errors.size(), part(parts, 0).size);
  copy_bytes(errors.data(), part(parts, 0).data, errors.size() * sizeof(double));
  if (!std::ranges::all_of(errors, [](double one) { return std::isfinite(one) && one >= -1; }))
    return failure("expected finite compression errors and numbers of forms, got others");
  errors_[header.worker] = std::move(errors);
  return {};
}

// Each portion counts once for a key, whoever made it and however often. A worker that was taken for lost may push
// several in one, of which others have been made again since: as these make all of them, the whole push is dropped.
bool ServedKeys::takes_portions(Entry& entry, const Bytes& portions) {
  if (clock_.merge == Merge::mean) return true;  // a clock counts once
  std::vector<std::int64_t> numbers(portions.size / sizeof(std::int64_t));
  copy_bytes(numbers.data(), portions.data, numbers.size() * sizeof(std::int64_t));
  const bool repeated = std::ranges::any_of(numbers, [&](std::int64_t one) { return entry.portions.contains(one); });
  (repeated ? repeated_portions_ : portions_) += static_cast<std::int64_t>(numbers.size());
  if (repeated) return false;
  for (const std::int64_t one : numbers) entry.portions.add(one);
  return true;
}

Result<void> ServedKeys::add_portion(Entry& entry, const Push& push, const Header& header) {
  const bool fresh = entry.shard->add_portion(static_cast<int>(header.slot), header.clock, push);
  ++(fresh ? portions_ : repeated_portions_);
  return {};
}

Result<double> ServedKeys::command(const Header& header) {
  const auto in_range = [](std::int64_t vector) { return vector >= 0 && vector < kMostVectors; };
  if (header.slot > static_cast<std::uint32_t>(VectorOp::dot) || !in_range(header.clock) || !in_range(header.version))
    return failure("expected a command over vectors in [0, {}), got {} of {} and {}", kMostVectors, header.slot,
                   header.clock, header.version);
  if (!std::isfinite(header.weight) || std::abs(header.weight) > kMostFactor)
    return failure("expected a factor of at most {:g}, got {}", kMostFactor, header.weight);
  const auto op = static_cast<VectorOp>(header.slot);
  const bool weights = header.clock == 0 || header.version == 0 || op == VectorOp::pseudo_gradient;
  if (weights && std::ranges::any_of(entries_, [](const auto& entry) { return !entry.second.shard->ready(); }))
    return failure("expected weights before a command over them, got none yet");
  std::uint64_t& last = commands_[header.worker];
  if (op < VectorOp::sum_abs && header.number <= last) return 0.0;
  last = std::max(last, header.number);
  double sum = 0;
  for (const Key& key : table_.held_by(server_))  // in one order, so that sums are the same every time
    sum += find(key.id)->shard->command(op, static_cast<int>(header.clock), static_cast<int>(header.version),
                                        header.weight);
  return sum;
}

void ServedKeys::make(Entry& entry, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    for (const Push& push : step) {
      if (push.seen >= 0) staleness_.add(entry.shard->version() - push.seen);
    }
    if (entry.norms) {
      entry.norms->add(clock_.merge == Merge::mean ? -1 : step[0].worker, kept(step));
      continue;
    }
    entry.shard->step(step);
    ++updates_;
  }
  if (entry.norms) advance(entry);
}

// Measures and makes what can be.
void ServedKeys::advance(Entry& entry) {
  for (bool moved = true; moved;) {
    moved = false;
    while (const auto next = entry.norms->next_to_measure()) {
      const NormSums own = entry.shard->measure(*next->step);
      tell(entry, next->tag, own);
      entry.norms->tell(next->tag, own);
      moved = true;
    }
    while (const auto ready = entry.norms->next_to_make()) {
      entry.shard->step(ready->step, ready->whole);
      ++updates_;
      moved = true;
    }
  }
}

void ServedKeys::tell(const Entry& entry, const NormExchange::Tag& tag, const NormSums& own) {
  for (const Key& other : table_.keys_of(entry.key.tensor)) {
    if (other.server == server_) continue;
    norms_.push_back({other.server,
                      {.verb = Verb::norms,
                       .worker = kServer,
                       .key = other.id,
                       .number = tag.count,
                       .clock = tag.worker,
                       .weight = own.weights,
                       .lr = own.others,
                       .slot = static_cast<std::uint32_t>(server_)}});
  }
}

Result<void> ServedKeys::hear(const Header& header) {
  Entry* entry = find(header.key);
  const bool known = header.worker == kServer && header.slot < static_cast<std::uint32_t>(table_.servers()) &&
                     header.clock >= -1 && header.clock < clock_.workers;
  if (entry == nullptr || !entry->norms || !known) return failure("expected norms of one of its keys, got others");
  entry->norms->hear(static_cast<int>(header.slot), {static_cast<int>(header.clock), header.number},
                     {header.weight, header.lr});
  advance(*entry);
  return {};
}

Result<void> ServedKeys::expect_read(const Header& header, std::span<const Bytes> parts) const {
  if (auto fits = expect_numbers(header); !fits) return fits;
  const Entry* entry = find(header.key);
  if (entry == nullptr) return failure("expected one of its keys, got {}", header.key);
  if (header.verb != Verb::pull_rows) return {};
  const Bytes& rows = part(parts, 0);
  const auto& type = entry->shard->type();
  const std::size_t row =
      type.shape.rank() == 0
          ? 0
          : starling::bytes_of(type) / static_cast<std::size_t>(std::max<std::int64_t>(type.shape[0], 1));
  Bytes like{rows.owner, rows.data, rows.size / sizeof(std::int64_t) * row};  // only its size is looked at
  if (auto fits = entry->shard->accepts(rows, like); !fits) return failure("{}: {}", label(*entry), fits.error());
  return {};
}

bool ServedKeys::may_read(const Header& header) const {
  const Entry* entry = find(header.key);
  const std::int64_t clock = header.clock + (header.verb == Verb::push_pull ? 1 : 0);
  if (entry == nullptr || !entry->shard->ready() || (entry->norms && !entry->norms->idle())) return false;
  return header.worker >= static_cast<std::uint32_t>(clock_.workers) || entry->gate.may_read(clock);
}

Message ServedKeys::read(const Header& header, std::span<const Bytes> parts) {
  Entry& entry = *find(header.key);
  const std::int64_t clock = header.clock + (header.verb == Verb::push_pull ? 1 : 0);
  const std::int64_t least = entry.gate.least();
  if (header.worker < static_cast<std::uint32_t>(clock_.workers) && least != kUnbounded) gap_.add(clock - least);
  ++pulls_;
  Message answer{header, {}};
  answer.header.verb = Verb::done;
  answer.header.clock = least;
  answer.header.version = entry.shard->version();
  if (header.verb == Verb::pull && header.version == entry.shard->version())
    answer.header.verb = Verb::unchanged;
  else
    answer.parts = {header.verb == Verb::pull_rows ? entry.shard->rows(part(parts, 0)) : entry.shard->weights()};
  return answer;
}

std::uint64_t ServedKeys::last_number(std::uint32_t worker) const {
  const auto commanded = commands_.find(worker);
  std::uint64_t last = commanded == commands_.end() ? 0 : commanded->second;
  for (const auto& [id, entry] : entries_) {
    if (worker < entry.last.size()) last = std::max(last, entry.last[worker]);
  }
  return last;
}

nlohmann::json ServedKeys::manifest() const {
  auto list = nlohmann::json::array();
  for (const auto& [id, entry] : entries_) {
    const auto state = entry.shard->state();
    const std::string& parameter = state[0].name;
    for (std::size_t slot = 0; slot < state.size(); ++slot) {
      const auto& [name, tensor] = state[slot];
      const bool piece = slot == 0 || (is_state_of(name, parameter) && tensor.type() == state[0].tensor.type());
      if (!piece && name.find(".group") != std::string::npos) continue;  // follows from the rate of all groups
      list.push_back(
          {{"key", id}, {"slot", slot}, {"name", name}, {"piece", piece}, {"dtype", starling::name(tensor.dtype())}});
    }
  }
  return list;
}

Result<Message> ServedKeys::get_state(const Header& header) const {
  const Entry* entry = find(header.key);
  const auto state = entry == nullptr ? std::vector<NamedTensor>() : entry->shard->state();
  if (header.slot >= state.size())
    return failure("expected a tensor of the manifest, got {} of key {}", header.slot, header.key);
  const Tensor copy = copied(state[header.slot].tensor);  // a later step may write while it is on its way
  Message answer{header, {share(copy)}};
  answer.header.verb = Verb::done;
  return answer;
}

Counters ServedKeys::counters() const {
  std::int64_t late = 0;
  std::size_t held = 0;
  for (const auto& [id, entry] : entries_) {
    late += entry.gate.late();
    held += entry.gate.held();
  }
  Counters all{{"pushes", static_cast<double>(pushes_)},
               {"repeats", static_cast<double>(repeats_)},
               {"late", static_cast<double>(late)},
               {"held", static_cast<double>(held)},
               {"updates", static_cast<double>(updates_)},
               {"pulls", static_cast<double>(pulls_)},
               {"forgotten", static_cast<double>(forgotten_)},
               {"keys", static_cast<double>(entries_.size())},
               {"portions", static_cast<double>(portions_)},
               {"repeated_portions", static_cast<double>(repeated_portions_)},
               {"coded", static_cast<double>(coded_)}};
  double after = 0, before = 0;
  for (std::size_t t = 0; t < coded_bytes_.size(); ++t) {
    const auto& [tensor_after, tensor_before] = coded_bytes_[t];
    if (tensor_before == 0) continue;
    after += tensor_after;
    before += tensor_before;
    all.emplace_back("coded_bytes." + table_.tensors()[t].name, tensor_after);
    all.emplace_back("decoded_bytes." + table_.tensors()[t].name, tensor_before);
  }
  all.emplace_back("coded_bytes", after);
  all.emplace_back("decoded_bytes", before);
  for (std::size_t t = 0; !errors_.empty() && t < coded_bytes_.size(); ++t) {
    double sum = 0;
    for (const auto& [worker, errors] : errors_) sum += errors[t];
    if (sum > 0) all.emplace_back("codec_error." + table_.tensors()[t].name, sum / static_cast<double>(errors_.size()));
    const double form = errors_.begin()->second[coded_bytes_.size() + t];  // of the first worker that told
    if (form >= 0) all.emplace_back("codec_form." + table_.tensors()[t].name, form);
  }
  staleness_.append_to(all, "staleness");
  gap_.append_to(all, "gap");
  return all;
}

}  // namespace starling::dist::ps
