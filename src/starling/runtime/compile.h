#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "starling/graph/tracer.h"
#include "starling/ops/def/scopes/comm_world.h"
#include "starling/runtime/program.h"

namespace starling {

struct CompileOptions {
  std::set<std::string> disable = {};  // passes to disable, or "all"
  int threads = 0;                     // 0: num_threads()
  bool reuse_memory = true;
  bool reference_only = false;
  bool check_aliases = graph::checks_by_default();  // prove memory use when the program is built (alias_check.h)
  // Limit in bytes for values and scratch, met by recomputing values. 0: no limit, but programs of half a gigabyte and
  // more recompute values where that is nearly free.
  std::size_t memory_budget = 0;
  int branches = 1;  // lanes on which independent branches may run in parallel, sharing the threads
  std::shared_ptr<runtime::Strategy> strategy = nullptr;  // null: one rank
  // Ranks that the function's own collectives go to, with their groups (Mesh::world()), when it is traced and whenever
  // it runs; must outlive it. Without a communicator: those of the thread that calls it.
  CommWorld world = {};
  std::size_t cache = 16;  // programs kept, keyed by the types of the arguments
  bool overlap = true;     // off: collectives are not overlapped with compute
  // Bytes of small gradients that ranks reduce in one exchange; the first bucket is smaller, so that it starts early.
  std::size_t bucket_bytes = graph::ProgramOptions{}.bucket_bytes;
  std::size_t first_bucket_bytes = graph::ProgramOptions{}.first_bucket_bytes;
};

struct CompileTimes {
  double trace_ms = 0;
  double build_ms = 0;                         // passes, lowering, planning, memory
  std::vector<graph::PassReport> passes = {};  // with a row for lowering, if the strategy reports it
  std::string print() const;
};

// Number of rows of the global batch, of which each rank passes its own part.
struct GlobalRows {
  std::int64_t rows = 0;
};

// Function traced, differentiated, optimised and planned at its first call with arguments of given types, and run as
// one program from then on. Tensors it captures are read at every call, variables are updated, and results are fresh
// tensors unless the caller has released the previous ones.
class CompiledFunction {
 public:
  CompiledFunction(graph::TraceFn f, CompileOptions options);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;
  CompiledFunction& operator=(CompiledFunction&&) noexcept;

  TensorList call(std::span<const Tensor> arguments);
  void prepare(std::span<const Tensor> arguments);  // compiles as a call would, without running

  // Call of one rank of several, made by all of them, under a strategy of one rank over a global program: arguments
  // with at least one dimension hold this rank's rows (possibly none) of `all.rows` rows, the function is traced as if
  // it had all of them, and results split by rows hold this rank's rows.
  TensorList call(std::span<const Tensor> arguments, GlobalRows all);
  void prepare(std::span<const Tensor> arguments, GlobalRows all);

  // Properties of the program used last; these throw before the first call.
  const graph::Graph& traced_graph() const;  // as traced, before any pass
  const graph::Graph& graph() const;         // as it runs
  std::string explain() const;               // compile times by stage, instructions, memory
  CompileTimes compile_times() const;
  std::size_t memory_bytes() const;
  std::size_t programs() const;  // in the cache

  void set_profiler(Profiler* profiler);

 private:
  struct Entry;
  struct State;
  Entry& entry_for(std::span<const Tensor> arguments, std::int64_t rows);
  TensorList run(std::span<const Tensor> arguments, std::int64_t rows);
  std::unique_ptr<State> state_;
};

namespace detail {

template <class F, std::size_t... I>
TensorList invoke(F& f, std::span<const Tensor> in, std::index_sequence<I...>) {
  using R = decltype(f(in[I]...));
  if constexpr (std::is_void_v<R>) {
    f(in[I]...);
    return {};
  } else if constexpr (std::is_same_v<std::decay_t<R>, Tensor>) {
    return {f(in[I]...)};
  } else {
    TensorList out;
    for (auto& t : f(in[I]...)) out.push_back(t);
    return out;
  }
}

template <class F, std::size_t N = 0>
constexpr std::size_t arity() {
  static_assert(N <= 8, "compile() takes functions of up to eight tensors");
  constexpr bool fits = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<F&, decltype((void)I, std::declval<const Tensor&>())...>;
  }
  (std::make_index_sequence<N>());
  if constexpr (fits) {
    return N;
  } else {
    return arity<F, N + 1>();
  }
}

}  // namespace detail

// Result of compile(): callable like the function it was given.
template <class F>
class Compiled : public CompiledFunction {
 public:
  Compiled(F f, CompileOptions options)
      : CompiledFunction(
            [f = std::move(f)](std::span<const Tensor> in) mutable { return detail::invoke(f, in, Indices{}); },
            std::move(options)) {}

  template <class... Args>
  auto operator()(const Args&... args) {
    static_assert(sizeof...(Args) == Indices::size(), "as many tensors as the function takes");
    const Tensor in[] = {args..., Tensor()};
    TensorList out = call({in, sizeof...(Args)});
    if constexpr (std::is_void_v<Result>) {
      return;
    } else if constexpr (std::is_same_v<std::decay_t<Result>, Tensor>) {
      return Tensor(out[0]);
    } else {
      return out;
    }
  }

 private:
  using Indices = std::make_index_sequence<detail::arity<F>()>;
  template <std::size_t... I>
  static auto result(std::index_sequence<I...>)
      -> decltype(std::declval<F&>()((void(I), std::declval<const Tensor&>())...));
  using Result = decltype(result(Indices{}));
};

template <class F>
Compiled<F> compile(F f, CompileOptions options = {}) {
  return Compiled<F>(std::move(f), std::move(options));
}

}  // namespace starling
