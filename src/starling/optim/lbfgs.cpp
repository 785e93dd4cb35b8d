#include "starling/optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/runtime/compile.h"

namespace starling::optim {
namespace {

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* to, double factor, const double* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

double largest(const double* x, std::int64_t n) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  return most;
}

double get(const Tensor& scalar) { return *scalar.data<double>(); }
void set(const Tensor& scalar, double value) { *scalar.data<double>() = value; }

Tensor made(const std::string& name, const Shape& shape) {
  Tensor tensor = zeros(shape, DType::f64);
  tensor.set_name(name);
  return tensor;
}

}  // namespace

Lbfgs::Lbfgs(std::vector<Tensor> parameters, Loss loss, const LbfgsOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  check(options.lr > 0 && options.iterations > 0 && options.history > 0,
        "[Lbfgs] expected a rate, iterations and a history above 0, got {}, {} and {}", options.lr, options.iterations,
        options.history);
  check(!parameters_.empty(), "[Lbfgs] expected parameters, got none");
  if (options_.evaluations == 0) options_.evaluations = options.iterations * 5 / 4;
  for (const auto& p : parameters_) {
    check(p.requires_grad() && p.is_variable() && p.device() == kCpu,
          "[Lbfgs] expected named parameters that require gradients, on the CPU, got {}", to_string(p.type()));
    n_ += p.numel();
  }
  const auto both = [loss = std::move(loss), list = parameters_] {
    const Tensor value = loss();
    TensorList all{value.detach()};
    for (const auto& gradient : gradients({&value, 1}, list)) all.push_back(dense(gradient));
    return all;
  };
  if (options.compiled) {
    auto program =
        std::make_shared<CompiledFunction>([both](std::span<const Tensor>) { return both(); }, CompileOptions{});
    value_and_gradient_ = [program] { return program->call({}); };
  } else {
    value_and_gradient_ = both;
  }
  const std::string& name = options.name;
  steps_ = made(name + ".steps", {options.history, n_});
  differences_ = made(name + ".differences", {options.history, n_});
  direction_ = made(name + ".direction", {n_});
  gradient_ = made(name + ".gradient", {n_});
  iterations_ = made(name + ".iterations", {});
  kept_ = made(name + ".kept", {});
  newest_ = made(name + ".newest", {});
  evaluations_ = made(name + ".evaluations", {});
  length_ = made(name + ".length", {});
  scale_ = made(name + ".scale", {});
}

std::vector<std::pair<std::string, Tensor>> Lbfgs::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& t :
       {steps_, differences_, direction_, gradient_, iterations_, kept_, newest_, evaluations_, length_, scale_})
    all.emplace_back(t.name(), t);
  return all;
}

std::int64_t Lbfgs::evaluations() const { return static_cast<std::int64_t>(get(evaluations_)); }

LinePoint Lbfgs::evaluate() {
  const TensorList values = value_and_gradient_();
  LinePoint point{.loss = values[0].item()};
  point.gradient.reserve(static_cast<std::size_t>(n_));
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Vector part = values[i].to_vector();
    point.gradient.insert(point.gradient.end(), part.begin(), part.end());
  }
  set(evaluations_, get(evaluations_) + 1);
  return point;
}

LinePoint Lbfgs::evaluate_at(const Vector& from, double t) {
  place(from, t);
  LinePoint point = evaluate();
  point.t = t;
  point.slope = dot(point.gradient.data(), direction_.data<double>(), n_);
  return point;
}

Lbfgs::Vector Lbfgs::position() const {
  Vector all;
  all.reserve(static_cast<std::size_t>(n_));
  for (const auto& p : parameters_) {
    const Vector part = p.to_vector();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void Lbfgs::place(const Vector& from, double t) {
  const double* direction = direction_.data<double>();
  std::size_t at = 0;
  Vector part;
  for (const auto& p : parameters_) {
    part.resize(static_cast<std::size_t>(p.numel()));
    for (double& value : part) {
      value = from[at] + t * direction[at];
      ++at;
    }
    copy_into(p, from_doubles(part, p.shape(), p.dtype()));
  }
}

// Stores the last step and the change of the gradient, unless the curvature along it is not positive.
void Lbfgs::remember(const Vector& gradient) {
  const auto at = static_cast<std::int64_t>(get(newest_));
  double* s = steps_.data<double>() + at * n_;
  double* y = differences_.data<double>() + at * n_;
  const double *direction = direction_.data<double>(), *before = gradient_.data<double>();
  const double length = get(length_);
  Vector step(static_cast<std::size_t>(n_)), change(static_cast<std::size_t>(n_));
  for (std::int64_t i = 0; i < n_; ++i) {
    const auto k = static_cast<std::size_t>(i);
    step[k] = direction[i] * length;
    change[k] = gradient[k] - before[i];
  }
  const double curvature = dot(change.data(), step.data(), n_);
  if (!(curvature > 1e-10)) return;
  std::copy(step.begin(), step.end(), s);
  std::copy(change.begin(), change.end(), y);
  set(scale_, curvature / dot(y, y, n_));
  set(newest_, static_cast<double>((at + 1) % options_.history));
  set(kept_, std::min(get(kept_) + 1, static_cast<double>(options_.history)));
}

// Two-loop recursion over the stored pairs, newest first and back.
void Lbfgs::find_direction(const Vector& gradient) {
  double* q = direction_.data<double>();
  for (std::int64_t i = 0; i < n_; ++i) q[i] = -gradient[static_cast<std::size_t>(i)];
  const int kept = static_cast<int>(get(kept_));
  Vector alpha(static_cast<std::size_t>(kept)), inverse(static_cast<std::size_t>(kept));
  const auto pair = [&](int age) {
    const int at = (static_cast<int>(get(newest_)) - 1 - age + 2 * options_.history) % options_.history;
    return std::pair{steps_.data<double>() + at * n_, differences_.data<double>() + at * n_};
  };
  for (int age = 0; age < kept; ++age) {
    const auto [s, y] = pair(age);
    const auto k = static_cast<std::size_t>(age);
    inverse[k] = 1 / dot(y, s, n_);
    alpha[k] = dot(s, q, n_) * inverse[k];
    add_scaled(q, -alpha[k], y, n_);
  }
  for (std::int64_t i = 0; i < n_; ++i) q[i] *= get(scale_);
  for (int age = kept - 1; age >= 0; --age) {
    const auto [s, y] = pair(age);
    const auto k = static_cast<std::size_t>(age);
    add_scaled(q, alpha[k] - dot(y, q, n_) * inverse[k], s, n_);
  }
}

// One iteration from `now`; returns true to go on.
bool Lbfgs::iterate(LinePoint& now, int& left, bool last) {
  const bool first = get(iterations_) == 0;
  set(iterations_, get(iterations_) + 1);
  if (first)
    set(scale_, 1);
  else
    remember(now.gradient);
  find_direction(now.gradient);
  std::copy(now.gradient.begin(), now.gradient.end(), gradient_.data<double>());
  double sum = 0;
  for (double g : now.gradient) sum += std::abs(g);
  const double trial = first ? std::min(1.0, 1 / sum) * options_.lr : options_.lr;
  set(length_, trial);
  now.t = 0;
  now.slope = dot(now.gradient.data(), direction_.data<double>(), n_);
  if (now.slope > -options_.change_tolerance) return false;
  const Vector from = position();
  const double before = now.loss, longest = largest(direction_.data<double>(), n_), evaluated = get(evaluations_);
  if (options_.line_search == LbfgsOptions::LineSearch::strong_wolfe) {
    LinePoint best = strong_wolfe(now, trial, longest, [&](double t) { return evaluate_at(from, t); },
                                  {.smallest = options_.change_tolerance, .evaluations = left});
    now = std::move(best);
    set(length_, now.t);
    place(from, now.t);
  } else {
    place(from, trial);
    if (last) return false;
    now = evaluate_at(from, trial);
  }
  left -= static_cast<int>(get(evaluations_) - evaluated);
  return !last && left > 0 && largest(now.gradient.data(), n_) > options_.gradient_tolerance &&
         get(length_) * longest > options_.change_tolerance && std::abs(now.loss - before) >= options_.change_tolerance;
}

double Lbfgs::step() {
  LinePoint now = evaluate();
  const double loss = now.loss;
  if (largest(now.gradient.data(), n_) <= options_.gradient_tolerance) return loss;
  int left = options_.evaluations - 1;
  for (int i = 1; i <= options_.iterations; ++i) {
    if (!iterate(now, left, i == options_.iterations)) break;
  }
  return loss;
}

}  // namespace starling::optim
