#include "starling/train/ranks/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/hash/hash.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/dist/health/replica_hash.h"
#include "starling/dist/mesh/mesh_choice.h"
#include "starling/dist/strategy/state/flat_tensors.h"
#include "starling/tensor/bytes.h"

namespace starling::train {
namespace {

// Waits for work that one rank does alone: pre-training, evaluating a stream, reading a checkpoint. In a supervised
// group they last as long as that rank makes progress.
constexpr std::chrono::hours kUnsupervised{24};

CallOptions patient(const Comm& comm, std::string_view name) {
  if (comm.rank_progress() != nullptr) return {.name = name};
  return {.name = name, .deadline = kUnsupervised};
}

// Broadcasts in place on the CPU; through a copy on other devices.
void broadcast_tensor(Comm& comm, const Tensor& tensor, std::string_view name) {
  const Tensor host = data::on_host(tensor);
  const auto bytes = data::host_bytes(host);
  // The root's memory is only read: it may be a mapped file.
  void* data = const_cast<std::byte*>(bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  comm.broadcast(data, static_cast<std::int64_t>(bytes.size()), DType::u8, 0, patient(comm, name)).wait();
  if (comm.rank() != 0 && !same(host, tensor)) copy_into(tensor, host);
}

nlohmann::json describe(const std::vector<NamedTensor>& tensors) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [name, tensor] : tensors)
    all.push_back({{"name", name},
                   {"dtype", static_cast<int>(tensor.dtype())},
                   {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())}});
  return all;
}

// Tensors of the described types that lie elsewhere.
std::vector<NamedTensor> made_as(const nlohmann::json& described, const std::string& prefix = "") {
  std::vector<NamedTensor> tensors;
  for (const auto& one : described) {
    const auto sizes = one.at("shape").get<std::vector<std::int64_t>>();
    const Shape shape{std::span<const std::int64_t>(sizes)};
    tensors.push_back({prefix + one.at("name").get<std::string>(),
                       empty(shape, static_cast<DType>(one.at("dtype").get<int>()), {.kind = DeviceKind::null})});
  }
  return tensors;
}

}  // namespace

RankLink::RankLink(std::shared_ptr<dist::RankStrategy> strategy)
    : strategy_(std::move(strategy)), comm_(strategy_->comm().split(0, strategy_->rank())) {}

// Waits for notes and votes in flight, which others may still read. A run that ends by an exception has aborted the
// group before.
RankLink::~RankLink() {
  const auto end = [](Work& work) {
    try {
      work.wait();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): either way nobody touches it any more
    }
  };
  for (const auto& note : notes_) end(note->work);
  if (voting_) end(vote_);
}

bool RankLink::first_of_rows() const {
  const dist::ShardedState* sharded = strategy_->sharded();
  if (sharded == nullptr) return true;
  const auto& axes = sharded->mesh().axes();
  return std::all_of(axes.begin(), axes.end(), [&](const MeshAxis& axis) {
    return axis.name == dist::kDataAxis || sharded->mesh().coordinate(rank(), axis.name) == 0;
  });
}

void RankLink::post(const StepNote& own) {
  auto notes = std::make_unique<Notes>();
  notes->own = own;
  notes->all.resize(static_cast<std::size_t>(size()));
  notes->work = comm_->all_gather(&notes->own, notes->all.data(), sizeof(StepNote), DType::u8, {.name = "step_note"});
  notes_.push_back(std::move(notes));
}

std::vector<StepNote> RankLink::take() {
  check(!notes_.empty(), "[train] expected a note that was posted, got none");
  notes_.front()->work.wait();
  std::vector<StepNote> all = std::move(notes_.front()->all);
  notes_.pop_front();
  return all;
}

std::vector<std::int64_t> RankLink::gather(std::int64_t own) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  comm_->all_gather(&own, all.data(), 1, DType::i64, patient(*comm_, "numbers")).wait();
  return all;
}

std::vector<std::string> RankLink::gather(const std::string& own) { return gather_texts(*comm_, own); }

std::vector<std::string> gather_texts(Comm& comm, const std::string& own) {
  const auto size = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&size, counts.data(), 1, DType::i64, patient(comm, "numbers")).wait();
  std::int64_t sum = 0;
  for (const auto count : counts) sum += count;
  std::string joined(static_cast<std::size_t>(sum), '\0');
  comm.all_gather(own.data(), joined.data(), counts, DType::u8, patient(comm, "texts")).wait();
  std::vector<std::string> all;
  std::size_t begin = 0;
  for (const auto count : counts) {
    all.push_back(joined.substr(begin, static_cast<std::size_t>(count)));
    begin += static_cast<std::size_t>(count);
  }
  return all;
}

void RankLink::gather_rows(const void* own, void* all, std::vector<std::int64_t> rows, std::int64_t row_bytes) {
  for (auto& count : rows) count *= row_bytes;
  comm_->all_gather(own, all, rows, DType::u8, patient(*comm_, "rows")).wait();
}

std::string RankLink::broadcast(std::string text) {
  auto length = static_cast<std::int64_t>(text.size());
  comm_->broadcast(&length, 1, DType::i64, 0, patient(*comm_, "length")).wait();
  text.resize(static_cast<std::size_t>(length));
  comm_->broadcast(text.data(), length, DType::u8, 0, patient(*comm_, "text")).wait();
  return text;
}

void RankLink::broadcast(std::span<const NamedTensor> tensors) {
  for (const auto& [name, tensor] : tensors) broadcast_tensor(*comm_, tensor, name);
}

void RankLink::meet() { comm_->barrier(patient(*comm_, "meet")).wait(); }

void RankLink::post_vote(std::int64_t own) {
  own_vote_ = own;
  votes_.assign(static_cast<std::size_t>(size()), 0);
  voting_ = true;
  vote_ = comm_->all_gather(&own_vote_, votes_.data(), 1, DType::i64, patient(*comm_, "vote"));
}

std::vector<std::int64_t> RankLink::take_vote() {
  vote_.wait();
  voting_ = false;
  return votes_;
}

std::optional<Checkpoint> RankLink::share(std::optional<Checkpoint> own) {
  nlohmann::json head;
  if (leads() && own) head = {{"step", own->step}, {"extra", own->extra}, {"tensors", describe(own->tensors)}};
  head = nlohmann::json::parse(broadcast(head.dump()));
  if (head.is_null()) return std::nullopt;
  if (!leads()) own = Checkpoint{head.at("step"), made_as(head.at("tensors")), head.at("extra")};
  own->fetch = [this](const NamedTensor& tensor, const Checkpoint::Take& take) { return send_bytes(tensor, take); };
  return own;
}

namespace {

constexpr std::int64_t kPiece = static_cast<std::int64_t>(data::kHostPiece);

// Tensor of a checkpoint of which ranks store pieces: this rank's, and how it was cut.
struct StoredPiece {
  NamedTensor own;
  dist::AxisCuts cuts;
};

// Takes the tensors that are stored in pieces out of a checkpoint: in their place stand tensors of the whole type that
// lie elsewhere. Returns this rank's pieces.
std::vector<StoredPiece> take_pieces(Checkpoint& checkpoint, const dist::ShardedState& sharded) {
  std::vector<StoredPiece> pieces;
  for (auto& [name, tensor] : checkpoint.tensors) {
    const Tensor* own = sharded.piece(tensor);
    if (own == nullptr) continue;
    pieces.push_back({{name, *own}, sharded.cuts(tensor)});
    tensor = empty(tensor.shape(), tensor.dtype(), {.kind = DeviceKind::null});
  }
  return pieces;
}

// A sum over tensors of all ranks: rank 0's, and by rank the index of that one there.
struct Summed {
  dist::ModelSum sum{};
  Tensor own{};
  std::vector<std::int64_t> places{};
};

// Where rank 0 finds tensors that lie on other ranks.
struct Lent {
  std::map<std::string, std::pair<int, std::int64_t>> tensors{};  // of one rank: the rank and its index there
  std::map<std::string, std::size_t> pieces{};                    // of all ranks: the number of the piece
  std::vector<std::int64_t> first_piece{};                        // by rank: index of its first piece
  std::map<std::string, Summed> sums{};                           // of all ranks
};

}  // namespace

namespace {

Summed summed_of(const dist::ModelSum& sum, const std::vector<NamedTensor>& own,
                 const std::map<std::string, std::pair<int, std::int64_t>>& lent) {
  const std::string name = "state." + sum.name;
  const auto here = std::find_if(own.begin(), own.end(), [&](const NamedTensor& one) { return one.name == name; });
  check(here != own.end(), "[ranks] expected '{}' among what the ranks lend, got a sum over it", name);
  Summed made{.sum = sum, .own = here->tensor, .places = {0}};
  for (std::size_t rank = 1; rank < sum.shares.size(); ++rank)
    made.places.push_back(sum.shares[rank] == 0 ? -1 : lent.at(fmt::format("rank.{}.{}", rank, name)).second);
  return made;
}

}  // namespace

// A piece of every rank's tensor at a time. `places` are the indices of the tensors there.
bool RankLink::fetch_sum(const dist::ModelSum& sum, std::span<const std::int64_t> places, const Tensor& own,
                         const Checkpoint::Take& take) {
  const auto element = static_cast<std::int64_t>(size_of(own.dtype()));
  const Tensor host = data::on_host(own);
  const auto here = data::host_bytes(host);
  std::vector<std::byte> made, part;
  for (std::int64_t begin = 0; begin < std::ssize(here); begin += kPiece) {
    const std::int64_t size = std::min(kPiece, std::ssize(here) - begin);
    made.assign(static_cast<std::size_t>(size), std::byte{0});
    const auto add = [&](double share, const void* from) {
      dist::scale_add(own.dtype(), size / element, share, from, 1, made.data());
    };
    for (int rank = 0; rank < std::ssize(sum.shares); ++rank) {
      const double share = sum.shares[static_cast<std::size_t>(rank)];
      if (share == 0) continue;
      if (rank == 0) {
        add(share, here.data() + begin);
        continue;
      }
      part.resize(static_cast<std::size_t>(size));
      ask(rank, {.index = places[static_cast<std::size_t>(rank)], .begin = begin}, part);
      add(share, part.data());
    }
    if (sum.base.defined()) add(sum.base_share, data::host_bytes(sum.base).data() + sum.begin * element + begin);
    if (!take(made)) return false;
  }
  return true;
}

// From rank 0 to all, also to ranks that have no use for them.
bool RankLink::send_bytes(const NamedTensor& tensor, const Checkpoint::Take& take) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(tensor.tensor));
  const auto here = leads() ? data::host_bytes(tensor.tensor) : std::span<const std::byte>();
  std::vector<std::byte> piece(static_cast<std::size_t>(leads() ? 0 : std::min(kPiece, bytes)));
  bool goes_on = true;
  for (std::int64_t begin = 0; begin < bytes; begin += kPiece) {
    const auto size = static_cast<std::size_t>(std::min(kPiece, bytes - begin));
    const auto some = leads() ? here.subspan(static_cast<std::size_t>(begin), size) : std::span(piece).first(size);
    // The root's memory is only read: it may be a mapped file.
    auto* const data = const_cast<std::byte*>(some.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    comm_->broadcast(data, static_cast<std::int64_t>(size), DType::u8, 0, patient(*comm_, tensor.name)).wait();
    goes_on = goes_on && take(some);
  }
  return goes_on;
}

void RankLink::lend(const std::vector<NamedTensor>& own, Checkpoint& checkpoint,
                    const std::function<void(const Checkpoint&)>& use, const dist::ShardedState* sharded,
                    const std::vector<dist::ModelSum>& sums) {
  const auto pieces = sharded != nullptr ? take_pieces(checkpoint, *sharded) : std::vector<StoredPiece>();
  const auto described = gather(describe(own).dump());
  if (!leads()) {
    use(checkpoint);
    std::vector<NamedTensor> all = own;
    for (const StoredPiece& piece : pieces) all.push_back(piece.own);
    return serve(all);
  }
  Lent lent;
  for (std::size_t i = 0; i < pieces.size(); ++i) lent.pieces[pieces[i].own.name] = i;
  for (const auto& [name, tensor] : own) checkpoint.tensors.push_back({"rank.0." + name, tensor});
  for (int rank = 0; rank < size(); ++rank) {
    const auto theirs = nlohmann::json::parse(described[static_cast<std::size_t>(rank)]);
    lent.first_piece.push_back(static_cast<std::int64_t>(theirs.size()));
    std::int64_t index = 0;
    for (auto& tensor : rank > 0 ? made_as(theirs, fmt::format("rank.{}.", rank)) : std::vector<NamedTensor>()) {
      lent.tensors[tensor.name] = {rank, index++};
      checkpoint.tensors.push_back(std::move(tensor));
    }
  }
  for (const dist::ModelSum& sum : sums) lent.sums[sum.name] = summed_of(sum, own, lent.tensors);
  if (!lent.tensors.empty() || !lent.pieces.empty() || !lent.sums.empty()) {
    checkpoint.fetch = [&](const NamedTensor& wanted, const Checkpoint::Take& take) {
      if (const auto found = lent.sums.find(wanted.name); found != lent.sums.end())
        return fetch_sum(found->second.sum, found->second.places, found->second.own, take);
      if (const auto piece = lent.pieces.find(wanted.name); piece != lent.pieces.end()) {
        std::vector<std::int64_t> places = lent.first_piece;
        for (auto& place : places) place += static_cast<std::int64_t>(piece->second);
        return fetch_pieces(wanted.tensor, places, *sharded, pieces[piece->second].cuts,
                            pieces[piece->second].own.tensor, take);
      }
      const auto& [rank, index] = lent.tensors.at(wanted.name);
      return fetch(rank, index, static_cast<std::int64_t>(bytes_of(wanted.tensor)), take);
    };
  }
  use(checkpoint);
  checkpoint.fetch = nullptr;
  const PieceWanted no_more;
  for (int rank = 1; rank < size(); ++rank)
    comm_->send(&no_more, sizeof(PieceWanted), DType::u8, rank, patient(*comm_, "piece wanted")).wait();
}

// The whole, some rows at a time, put together from the pieces of all ranks that store a part of these rows. `places`
// are the indices of the pieces there.
bool RankLink::fetch_pieces(const Tensor& whole, std::span<const std::int64_t> places,
                            const dist::ShardedState& sharded, const dist::AxisCuts& cuts, const Tensor& own,
                            const Checkpoint::Take& take) {
  if (whole.numel() == 0) return true;
  const auto element = static_cast<std::int64_t>(size_of(whole.dtype()));
  const std::int64_t rows = whole.size(0), row = whole.numel() / rows * element;
  const Tensor own_host = data::on_host(own);
  const auto here = data::host_bytes(own_host);
  std::vector<std::byte> some, part;
  for (std::int64_t first = 0, step = std::max<std::int64_t>(1, kPiece / row); first < rows; first += step) {
    const std::int64_t last = std::min(rows, first + step);
    some.resize(static_cast<std::size_t>((last - first) * row));
    for (int rank : sharded.owners(cuts)) {
      const dist::Region region = sharded.region(whole.shape(), cuts, rank);
      const Piece theirs = region.rows(first, last);
      if (theirs.size == 0 || region.shape().numel() == 0) continue;
      const std::int64_t their_row = region.shape().numel() / region.shape()[0] * element;
      const std::int64_t begin = theirs.begin * their_row;
      const std::byte* from = here.data() + begin;
      if (rank != 0) {
        part.resize(static_cast<std::size_t>(theirs.size * their_row));
        ask(rank, {.index = places[static_cast<std::size_t>(rank)], .begin = begin}, part);
        from = part.data();
      }
      region.each(first, last, [&](const dist::Region::Run& run) {
        std::memcpy(some.data() + (run.whole * element - first * row), from + (run.part * element - begin),
                    static_cast<std::size_t>(run.count * element));
      });
    }
    if (!take(some)) return false;
  }
  return true;
}

// Fills `into` with bytes of a tensor that another rank serves.
void RankLink::ask(int rank, PieceWanted wanted, std::span<std::byte> into) {
  wanted.bytes = static_cast<std::int64_t>(into.size());
  comm_->send(&wanted, sizeof(PieceWanted), DType::u8, rank, patient(*comm_, "piece wanted")).wait();
  comm_->recv(into.data(), wanted.bytes, DType::u8, rank, patient(*comm_, "piece")).wait();
}

bool RankLink::fetch(int rank, std::int64_t index, std::int64_t bytes, const Checkpoint::Take& take) {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, bytes)));
  for (std::int64_t begin = 0; begin < bytes; begin += kPiece) {
    const auto some = std::span(piece).first(static_cast<std::size_t>(std::min(kPiece, bytes - begin)));
    ask(rank, {.index = index, .begin = begin}, some);
    if (!take(some)) return false;
  }
  return true;
}

void RankLink::serve(const std::vector<NamedTensor>& own) {
  Tensor host;  // of the index last asked for
  for (std::int64_t last = -1;;) {
    PieceWanted wanted;
    comm_->recv(&wanted, sizeof(PieceWanted), DType::u8, 0, patient(*comm_, "piece wanted")).wait();
    if (wanted.index < 0) return;
    if (wanted.index != last) host = data::on_host(own.at(static_cast<std::size_t>(wanted.index)).tensor);
    last = wanted.index;
    const auto bytes = data::host_bytes(host);
    const auto size = static_cast<std::int64_t>(bytes.size());
    check(wanted.begin >= 0 && wanted.bytes >= 0 && wanted.begin <= size && wanted.bytes <= size - wanted.begin,
          "[ranks] expected a part of {} bytes, got {} from {} on", size, wanted.bytes, wanted.begin);
    comm_->send(bytes.data() + wanted.begin, wanted.bytes, DType::u8, 0, patient(*comm_, "piece")).wait();
  }
}

dist::Verdict RankLink::vote_non_finite(std::string_view tensor) {
  return dist::vote_non_finite(*comm_, tensor, patient(*comm_, "non_finite"));
}

void RankLink::expect_equal(std::span<const NamedTensor> tensors, std::int64_t step) {
  std::vector<NamedTensor> dense;
  for (const auto& [name, tensor] : tensors) dense.push_back({name, data::on_host(tensor)});
  dist::check_replicas(*comm_, dense, step, "weights", patient(*comm_, "replicas"));
}

void RankLink::expect_equal_pieces(std::span<const NamedTensor> tensors, const dist::ShardedState& sharded,
                                   std::int64_t step) {
  using Digest = std::array<char, 32>;
  std::vector<const NamedTensor*> shared;
  std::vector<Digest> own;
  for (const NamedTensor& one : tensors) {
    const Tensor* piece = sharded.piece(one.tensor);
    if (piece == nullptr || std::ssize(sharded.owners(sharded.cuts(one.tensor))) == size()) continue;
    Hash128 hash;
    hash.update(data::host_bytes(data::on_host(*piece)));
    const std::string hex = hash.hex();
    std::copy_n(hex.begin(), Digest().size(), own.emplace_back().begin());
    shared.push_back(&one);
  }
  if (shared.empty()) return;
  const auto bytes = static_cast<std::int64_t>(own.size() * sizeof(Digest));
  std::vector<Digest> all(own.size() * static_cast<std::size_t>(size()));
  comm_->all_gather(own.data(), all.data(), bytes, DType::u8, patient(*comm_, "pieces")).wait();
  const auto of = [&](int rank, std::size_t i) { return all[static_cast<std::size_t>(rank) * own.size() + i]; };
  for (int rank = 0; rank < size(); ++rank) {
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const int first = sharded.owner(sharded.cuts(shared[i]->tensor), rank);
      check(of(rank, i) == of(first, i),
            "[replicas] expected the same piece of '{}' on ranks {} and {} after step {}, got a difference",
            shared[i]->name, first, rank, step);
    }
  }
}

void expect_same_job(Comm& comm, const std::map<std::string, std::string>& settings) {
  const auto told = gather_texts(comm, nlohmann::json(settings).dump());
  const auto first = nlohmann::json::parse(told[0]).get<std::map<std::string, std::string>>();
  for (std::size_t rank = 1; rank < told.size(); ++rank) {
    if (told[rank] == told[0]) continue;
    const auto other = nlohmann::json::parse(told[rank]).get<std::map<std::string, std::string>>();
    std::set<std::string> keys;
    for (const auto* one : {&first, &other}) {
      for (const auto& [key, value] : *one) keys.insert(key);
    }
    const auto value = [](const auto& of, const std::string& key) { return of.contains(key) ? of.at(key) : "nothing"; };
    for (const std::string& key : keys) {
      check(value(first, key) == value(other, key),
            "[train] expected the same job on all ranks, got {} = {} on rank 0 and {} on rank {}", key,
            value(first, key), value(other, key), rank);
    }
  }
}

void RankLink::abort(std::string_view reason) { strategy_->comm().abort(reason); }

}  // namespace starling::train
