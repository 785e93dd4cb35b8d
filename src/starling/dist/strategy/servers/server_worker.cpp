#include "starling/dist/strategy/servers/server_worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/dist/codec/choose_again.h"
#include "starling/dist/codec/measured_here.h"
#include "starling/dist/health/verdict.h"
#include "starling/dist/strategy/state/flat_tensors.h"
#include "starling/dist/strategy/traffic_counters.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

constexpr std::int64_t kTellEvery = 8;  // steps between two tellings of compression errors

}  // namespace

Settings LayerRhythm::settings() {
  using O = LayerRhythm;
  return {required(setting("name", &O::name, "of weights, with * for any text")),
          setting("every", &O::every, "steps whose gradients are added up before they are pushed, and weights fetched",
                  {.min = 1, .max = kMostKept})};
}

ps::ClockOptions ServerRule::clock(int workers) const {
  check(backups >= 0 && backups < workers, "[servers] expected fewer backups than the {} workers, got {}", workers,
        backups);
  return {.workers = workers,
          .bound = bound,
          .merge = merge,
          .quorum = backups > 0 ? workers - static_cast<int>(backups) : 0};
}

std::shared_ptr<RankStrategy> ServerMaker::operator()(std::shared_ptr<Comm> comm) const {
  return std::make_shared<ServerWorker>(std::move(comm), name, rule);
}

std::optional<ServerRule> server_rule(const StrategyMaker& maker) {
  const auto* found = maker.target<ServerMaker>();
  return found ? std::optional(found->rule) : std::nullopt;
}

ServerWorker::ServerWorker(std::shared_ptr<Comm> comm, std::string name, const ServerRule& rule)
    : ServedStrategy(std::move(comm)), kind_(std::move(name)), rule_(rule) {
  check(world() == 1, "[{}] expected a communicator of this worker alone, got one of {} ranks", kind_, world());
}

std::string ServerWorker::name() const { return kind_; }

void ServerWorker::begin(const TrainedState& state) {
  check(connect_ != nullptr, "[{}] expected a way to connect with its servers, got none", kind_);
  check(state.rule != nullptr, "[{}] expected the optimizer whose rate its pushes carry, got none", kind_);
  client_ = connect_(state);
  optimizer_ = state.rule;
  if (ps::PushCodec codec(rule_.codec); !codec.none() && !codec.by_factors())
    coded_.emplace(std::move(codec), client_->keys());
  if (ps::PushCodec(rule_.codec).chooses()) chooser_ = rule_.codec.make();
  for (const NamedTensor& weight : state.weights) layers_.push_back(layer_of(weight));
  for (const LayerRhythm& rhythm : rule_.layers)
    check(std::ranges::any_of(layers_, [&](const Layer& one) { return glob_matches(rhythm.name, one.weight.name); }),
          "[{}] expected a pattern that the name of some weight matches, got '{}'", kind_, rhythm.name);
}

std::unique_ptr<runtime::Program> ServerWorker::build(const graph::Graph& global, const Container& container,
                                                      const runtime::BuildOptions& options) {
  find_tables(global);
  if (!client_ || !ps::PushCodec(rule_.codec).takes_factors()) return RankStrategy::build(global, container, options);
  const auto wanted = [this](const Tensor& parameter, const FactorShape& shape) {
    return wants_factors(parameter, shape);
  };
  return program_with_factors(global, container, options, wanted, factors_);
}

// Gradients that this worker adds up or descends by itself are needed whole.
// A codec that chooses decides once whether a gradient travels as its factors, as the program depends on it.
bool ServerWorker::wants_factors(const Tensor& parameter, const FactorShape& shape) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    if (!same(layer.weight.tensor, parameter)) continue;
    const bool may = layer.n_push == 1 && layer.n_fetch == 1 && fewer_as_factors(client_->keys(), i, shape);
    if (!may || !chooser_) return may;
    if (!std::exchange(layer.asked, true)) {
      const auto copies = static_cast<double>(client_->keys().keys_of(i).size());
      WorldCosts costs = costs_;
      costs.flop_seconds /= copies * copies;  // each server multiplies its rows, and all inputs count below
      layer.form = *chooser_->choose(facts_of(i, shape), costs, {});
      coded_->set_form(i, layer.form);
    }
    return layer.form == GradientForm::factors;
  }
  return false;
}

const PushedFactors* ServerWorker::factors_of(const Layer& layer) const {
  const auto found = std::ranges::find_if(
      factors_, [&](const PushedFactors& one) { return same(one.parameter, layer.weight.tensor); });
  return found == factors_.end() ? nullptr : &*found;
}

// Factors have the name of the weight whose gradient they make.
std::string ServerWorker::first_not_finite(const GradientStep& step) const {
  std::vector<NamedTensor> all(step.gradients.begin(), step.gradients.end());
  for (const Layer& layer : layers_) {
    const PushedFactors* factors = factors_of(layer);
    if (factors == nullptr) continue;
    all.push_back({layer.weight.name, factors->errors});
    all.push_back({layer.weight.name, factors->inputs});
  }
  return first_non_finite(all);
}

ServerWorker::Layer ServerWorker::layer_of(const NamedTensor& weight) const {
  Layer layer{.weight = weight, .n_push = rule_.n_push, .n_fetch = rule_.n_fetch};
  const auto own =
      std::ranges::find_if(rule_.layers, [&](const LayerRhythm& one) { return glob_matches(one.name, weight.name); });
  if (own != rule_.layers.end()) layer.n_push = layer.n_fetch = own->every;
  for (const auto& group : optimizer_->groups()) {
    for (const Tensor& parameter : group.parameters) {
      if (same(weight.tensor, parameter)) layer.lr_scale = group.lr_scale;
    }
  }
  if (layer.n_push > 1) layer.kept = zeros(weight.tensor.shape(), weight.tensor.dtype());
  return layer;
}

// A table that one program reads by rows and another one whole is fetched whole, by the program that is built here for
// the first time: it runs in a step that has fetched no more than the rows of another.
void ServerWorker::find_tables(const graph::Graph& program) {
  const auto found = rows_read(program);
  for (const graph::GraphVariable& variable : program.variables) {
    const auto is_it = [&](const Tensor& one) { return same(one, variable.tensor); };
    const auto is_table = [&](const RowsRead& one) { return is_it(one.table); };
    const auto layer = std::ranges::find_if(layers_, [&](const Layer& one) { return is_it(one.weight.tensor); });
    if (!variable.tensor.defined() || layer == layers_.end() || std::ranges::any_of(whole_, is_it)) continue;
    const auto here = std::ranges::find_if(found, is_table);
    const auto known = std::ranges::find_if(tables_, is_table);
    const bool by_rows = here != found.end() && (known == tables_.end() || known->input == here->input);
    if (!by_rows) {
      if (known != tables_.end()) fetch_rest(static_cast<std::size_t>(layer - layers_.begin()));
      whole_.push_back(variable.tensor);
    } else if (known == tables_.end()) {
      tables_.push_back(*here);
    }
  }
}

// Fetches all of a table whose rows are of different ages: no step has read the others since it was last whole.
void ServerWorker::fetch_rest(std::size_t i) {
  if (!layers_[i].by_rows) return;
  client_->wait(client_->pull(i, layers_[i].weight.tensor, read_at_));
  layers_[i].by_rows = false;
}

// Rows of a table that the next step reads; undefined: all of it is to be fetched, as where a worker goes on with what
// it has between two fetches.
Tensor ServerWorker::rows_to_fetch(const Layer& layer) const {
  const auto is_it = [&](const Tensor& one) { return same(one, layer.weight.tensor); };
  const auto table = std::ranges::find_if(tables_, [&](const RowsRead& one) { return is_it(one.table); });
  if (table == tables_.end() || std::ranges::any_of(whole_, is_it) || layer.n_fetch > 1 || layer.n_push > 1) return {};
  if (table->input >= fields_.size()) return {};
  const Tensor& ids = fields_[table->input];
  const std::int64_t rows = layer.weight.tensor.size(0);
  if (ids.dtype() != DType::i64 || !ids.contiguous()) return {};
  return rows_among(ids, rows);
}

void ServerWorker::fetch_rows(std::size_t i, const Tensor& rows, std::int64_t clock) {
  const Tensor& table = layers_[i].weight.tensor;
  const Tensor values = client_->pull_rows(i, rows, clock);
  const std::size_t width = bytes_of(table) / static_cast<std::size_t>(table.size(0));
  for (std::int64_t n = 0; n < rows.numel(); ++n)
    copy_bytes(static_cast<std::byte*>(table.raw()) + static_cast<std::size_t>(rows.data<std::int64_t>()[n]) * width,
               static_cast<const std::byte*>(values.raw()) + static_cast<std::size_t>(n) * width, width);
  rows_fetched_ += rows.numel();
}

void ServerWorker::fetch(std::int64_t clock) {
  std::vector<std::pair<std::size_t, Tensor>> tables;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!fetches_at(layers_[i], clock)) continue;
    const Tensor rows = client_->keys().tensors()[i].by_rows ? rows_to_fetch(layers_[i]) : Tensor();
    layers_[i].by_rows = rows.defined();
    if (rows.defined())
      tables.emplace_back(i, rows);
    else
      client_->pull(i, layers_[i].weight.tensor, clock);
  }
  read_at_ = clock;
  for (const auto& [i, rows] : tables) fetch_rows(i, rows, clock);
  client_->wait_all();
  ++fetches_;
}

// Factors of which every server that holds rows gets all inputs.
GradientFacts ServerWorker::facts_of(std::size_t i, const std::optional<FactorShape>& shape) const {
  GradientFacts facts{coded_shape(layers_[i].weight.tensor.shape()), shape};
  if (shape) facts.factors->inputs *= static_cast<std::int64_t>(client_->keys().keys_of(i).size());
  return facts;
}

// The first fetch is of all weights: it tells what a byte takes between this worker and the servers.
void ServerWorker::measure(double seconds) {
  double bytes = 0;
  for (const Layer& layer : layers_) bytes += static_cast<double>(bytes_of(layer.weight.tensor));
  const ComputeCosts here = measured_here();
  costs_.byte_seconds = seconds / std::max(bytes, 1.0);
  costs_.flop_seconds = here.flop_seconds;
  costs_.half_seconds = here.half_seconds;
  costs_.bit_seconds = here.bit_seconds;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].form = *chooser_->choose(facts_of(i, std::nullopt), costs_, {});
    coded_->set_form(i, layers_[i].form);
  }
  mark_ = {.step = 0, .waited = 0, .at = SteadyClock::now()};
}

// Each worker for itself: servers decode whatever form comes.
void ServerWorker::choose_forms() {
  const std::int64_t every = chooser_->choose_every();
  if (every == 0 || steps_ - mark_.step < every) return;
  const double waited = ps::counter(client_->counters(), "wait_seconds");
  const auto steps = static_cast<double>(steps_ - mark_.step);
  const SeenStep seen{.seconds = seconds_since(mark_.at) / steps, .waited = (waited - mark_.waited) / steps};
  std::vector<ChosenGradient> gradients;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    if (layer.form == GradientForm::factors) continue;
    if (layer.form == GradientForm::one_bit) layer.worst_error = std::max(layer.worst_error, coded_->traffic(i).error);
    gradients.push_back({chooser_.get(), facts_of(i, std::nullopt), layer.form, layer.worst_error, false});
    of.push_back(i);
  }
  const auto forms = choose_again(gradients, costs_, seen);
  for (std::size_t g = 0; g < of.size(); ++g) {
    layers_[of[g]].form = forms[g];
    coded_->set_form(of[g], forms[g]);
  }
  mark_ = {.step = steps_, .waited = waited, .at = SteadyClock::now()};
}

void ServerWorker::before_step(std::int64_t number) {
  const std::int64_t step = number + settlings_;
  const bool due = std::ranges::any_of(layers_, [&](const Layer& one) { return fetches_at(one, step); });
  if (aside_) client_->join(step);
  const auto begin = SteadyClock::now();
  const bool first = fetches_ == 0;
  if (due) fetch(step);
  if (first && chooser_) measure(seconds_since(begin));
  fields_.clear();  // the loader owns their memory
  aside_ = false;
}

bool ServerWorker::keeps_back() const {
  return std::ranges::any_of(layers_, [](const Layer& one) { return one.kept_steps > 0; });
}

// Rows travel as such, each once, if the tensor is cut between rows. Of a push that servers may drop, the codec must
// keep nothing: it travels as it is.
void ServerWorker::push(std::size_t i, const Tensor& gradient, double weight, std::int64_t clock) {
  Layer& layer = layers_[i];
  const ps::PushOptions how{
      .clock = clock, .weight = weight, .lr = optimizer_->lr(), .portions = std::exchange(layer.portions, {})};
  const bool rows = is_row_sparse(gradient) && client_->keys().tensors()[i].by_rows;
  if (rows) rows_pushed_ += rows_of(gradient).numel();
  if (const PushedFactors* factors = factors_of(layer)) {
    client_->push_factors(i, factors->errors, factors->inputs, how);
    count_factors(i, *factors);
  } else if (coded_ && !rows && !alone_) {
    client_->push(i, dense(gradient), how, *coded_);
  } else {
    client_->push(i, rows ? gradient : dense(gradient), how);
  }
  layer.last_weight = weight;
  ++layer.pushes;
}

void ServerWorker::count_factors(std::size_t i, const PushedFactors& factors) {
  ++by_factors_;
  layers_[i].product_bytes += static_cast<double>(bytes_of(layers_[i].weight.tensor));
  layers_[i].factor_bytes += static_cast<double>(bytes_of(factors.errors)) +
                             static_cast<double>(client_->keys().keys_of(i).size() * bytes_of(factors.inputs));
}

void ServerWorker::push_kept(std::size_t i, std::int64_t clock) {
  Layer& layer = layers_[i];
  push(i, layer.kept, std::exchange(layer.kept_weight, 0), clock);
  layer.kept_steps = 0;
  sent_.push_back(i);
}

// Sums begin anew once they have left.
void ServerWorker::finish_pushes() {
  client_->wait_all();
  for (const std::size_t i : std::exchange(sent_, {})) std::memset(layers_[i].kept.raw(), 0, bytes_of(layers_[i].kept));
}

// Last layers first, as a backward pass makes them; the client serves the first ones first. True: there was something.
bool ServerWorker::push_kept(std::int64_t clock) {
  bool any = false;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (layers_[i].kept_steps == 0) continue;
    push_kept(i, clock);
    any = true;
  }
  finish_pushes();
  return any;
}

// The gradient of this step: pushed, or added to what is kept. True: pushed.
bool ServerWorker::give(std::size_t i, const Tensor& gradient, double weight) {
  Layer& layer = layers_[i];
  if (layer.n_push == 1 || alone_) {
    push(i, gradient, weight, clock_);
    return true;
  }
  scale_add(layer.kept.dtype(), layer.kept.numel(), 1, dense(gradient).raw(), 1, layer.kept.raw());
  layer.kept_weight += weight;
  if (++layer.kept_steps < layer.n_push) return false;
  push_kept(i, clock_);
  return true;
}

void ServerWorker::descend(const Layer& layer, const Tensor& gradient) const {
  const Tensor& weight = layer.weight.tensor;
  scale_add(weight.dtype(), weight.numel(), -optimizer_->lr() * layer.lr_scale, gradient.raw(), 1, weight.raw());
}

void ServerWorker::take_portion(std::int64_t portion, bool alone, std::int64_t pauses) {
  portion_ = portion;
  if (rule_.procedure) return;
  if (rule_.in_turn && coded_) settlings_ = pauses;  // one that was taken for lost has missed some
  alone_ = alone;  // first: servers may drop the push of what was kept, so the codec must leave nothing behind
  if (alone && push_kept(std::max<std::int64_t>(clock_, 0))) ++pushes_;
  if (alone) aside_ = true;  // a worker taken for lost tells the servers that it is back
  told_ = true;
  for (Layer& layer : layers_) layer.portions.push_back(portion);
}

void ServerWorker::exchange(GradientStep& step) {
  if (step.weight > 0 && (looks() || rule_.procedure)) step.not_finite = first_not_finite(step);
  if (!step.not_finite.empty()) {
    ++not_finite_;
    step.weight = 0;
  }
  clock_ = step.step + settlings_;
  ++steps_;
  const bool any = step.weight > 0;
  if (rule_.procedure) {
    if (any) push_portion(step);
    return;
  }
  bool pushed = false, keeps = false;
  std::vector<Tensor> gradients;  // live until they have left
  for (const NamedTensor& one : any ? step.gradients : std::span<const NamedTensor>())
    gradients.push_back(is_row_sparse(one.tensor) ? coalesce(one.tensor) : one.tensor);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    keeps = keeps || (layers_[i].n_push > 1 && !alone_);
    if (any) pushed = give(i, gradients[i], step.weight) || pushed;
    if (!any && told_) layers_[i].portions.pop_back();
  }
  told_ = false;
  finish_pushes();
  if (pushed) ++pushes_;
  if (!any || keeps) client_->tick(clock_);
  if (coded_ && steps_ % kTellEvery == 1) tell_errors();
  if (chooser_) choose_forms();
  for (std::size_t i = 0; any && i < layers_.size(); ++i) {
    if (!fetches_at(layers_[i], clock_ + 1)) descend(layers_[i], dense(gradients[i]));
  }
}

void ServerWorker::tell_errors() const {
  std::vector<double> errors;
  for (std::size_t i = 0; i < layers_.size(); ++i) errors.push_back(coded_->traffic(i).error);
  std::vector<double> forms;
  for (const Layer& layer : layers_) forms.push_back(chooser_ ? static_cast<double>(layer.form) : -1);
  if (chooser_ || std::ranges::any_of(errors, [](double one) { return one > 0; })) client_->tell_errors(errors, forms);
}

// A portion's part of the sum that the leader's procedure asks for. No clock counts it.
void ServerWorker::push_portion(const GradientStep& step) {
  check(portion_ >= 0, "[{}] expected the number of the portion that a gradient is of, got none", kind_);
  std::vector<Tensor> gradients;  // live until they have left
  for (const NamedTensor& one : step.gradients) gradients.push_back(dense(one.tensor));
  for (std::size_t i = layers_.size(); i-- > 0;) {
    client_->push_portion(ps::CoordinatorVectors::kGradient, portion_, i, gradients[i], step.weight);
    ++layers_[i].pushes;
  }
  client_->wait_all();
  ++pushes_;
}

bool ServerWorker::push_unsent(std::int64_t clock) {
  if (!coded_ || !coded_->keeps()) return false;
  for (std::size_t i = layers_.size(); i-- > 0;)
    client_->push_kept(i, {.clock = clock, .weight = layers_[i].last_weight, .lr = optimizer_->lr()}, *coded_);
  client_->wait_all();
  return true;
}

// Workers in turn stay: all of them make the same steps, and whoever came back first would go on alone.
void ServerWorker::settle() {
  if (aside_ || rule_.procedure) return;
  if (push_kept(clock_ + 1)) ++pushes_;
  if (push_unsent(clock_ + 1)) ++settles_;
  if (!rule_.in_turn) {
    client_->leave();
    aside_ = true;
  } else if (coded_) {
    client_->tick(++clock_);
    client_->wait_all();
    ++settlings_;
  }
}

std::vector<LawCounter> ServerWorker::counters() const {
  std::vector<LawCounter> all{{"steps", static_cast<double>(steps_)},
                              {"pushes", static_cast<double>(pushes_)},
                              {"fetches", static_cast<double>(fetches_)},
                              {"rows_pushed", static_cast<double>(rows_pushed_)},
                              {"rows_fetched", static_cast<double>(rows_fetched_)},
                              {"not_finite", static_cast<double>(not_finite_)}};
  if (coded_) all.push_back({"settles", static_cast<double>(settles_)});
  if (by_factors_ > 0) all.push_back({"sent_by_factors", static_cast<double>(by_factors_)});
  add_traffic(traffic(), all);
  for (const Layer& layer : rule_.layers.empty() ? std::vector<Layer>() : layers_)
    all.push_back({"pushes." + layer.weight.name, static_cast<double>(layer.pushes)});
  for (const auto& [name, value] : client_ ? client_->counters() : ps::Counters{})
    all.push_back({"client." + name, value});
  return all;
}

// Of weights whose gradients were coded or travelled as factors.
std::vector<GradientTraffic> ServerWorker::traffic() const {
  std::vector<GradientTraffic> all;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const ps::CodedPushes::Traffic coded = coded_ ? coded_->traffic(i) : ps::CodedPushes::Traffic();
    const double before = coded.before + layers_[i].product_bytes;
    const auto form = chooser_ ? std::optional(layers_[i].form) : std::nullopt;
    if (before > 0 || form)
      all.push_back({layers_[i].weight.name, before, coded.after + layers_[i].factor_bytes, coded.error, form});
  }
  return all;
}

// Traffic with the servers, told as messages: what was pushed as sent, what was fetched as received.
OpCounters ServerWorker::exchanged(CommOp op) const {
  OpCounters own;
  if (!client_ || (op != CommOp::send && op != CommOp::recv)) return own;
  const ps::Counters told = client_->counters();
  if (op == CommOp::send) {
    own.bytes_sent = static_cast<std::uint64_t>(ps::counter(told, "bytes_out"));
    own.calls = static_cast<std::uint64_t>(pushes_);
    return own;
  }
  own.bytes_received = static_cast<std::uint64_t>(ps::counter(told, "bytes_in"));
  own.wait_ns = static_cast<std::uint64_t>(1e9 * ps::counter(told, "wait_seconds"));
  own.calls = static_cast<std::uint64_t>(fetches_);
  return own;
}

}  // namespace starling::dist
