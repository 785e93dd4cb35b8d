#include "starling/ops/api/einsum.h"

#include <algorithm>
#include <optional>

#include "starling/base/round_up.h"
#include "starling/kernels/cpu/gemm/product.h"
#include "starling/kernels/cpu/gemm/thin_product.h"
#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/cpu/simd/copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/einsum.h"

namespace starling::kernels {
namespace {

using Labels = std::vector<int>;

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

// Operand, intermediate result or output: its labels, their strides, and its memory.
struct Term {
  static constexpr int kScratch = -1, kOutput = -2;
  Labels labels;
  std::vector<std::int64_t> strides;  // by label; 0 for labels it does not have
  int source = kScratch;
  std::size_t offset = 0;  // in bytes, within the scratch

  template <class T>
  T* at(const Launch& launch) const {
    if (source == kOutput) return static_cast<T*>(launch.out[0]);
    if (source == kScratch) return reinterpret_cast<T*>(static_cast<std::byte*>(launch.scratch) + offset);
    return static_cast<T*>(launch.in[source]);
  }
};

// Compiles an equation into steps: two terms at a time become one, by a gemm where there is reuse.
template <class T>
class Builder {
 public:
  using Steps = std::vector<std::function<void(const Launch&)>>;

  Builder(std::vector<std::int64_t> sizes, int threads) : sizes_(std::move(sizes)), threads_(threads) {}

  // Returns false if an intermediate result has more dimensions than tensors may have.
  bool build(std::vector<Term> terms, const Term& out) {
    while (terms.size() > 2) {
      const auto [i, j] = cheapest_pair(terms);
      const Term a = terms[i], b = terms[j];
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
      Labels kept;
      for (const Labels& from : {a.labels, b.labels}) {
        for (const int label : from) {
          bool wanted = has(out.labels, label);
          for (const auto& term : terms) wanted = wanted || has(term.labels, label);
          if (wanted && !has(kept, label)) kept.push_back(label);
        }
      }
      terms.push_back(dense(kept));
      contract(a, b, terms.back());
    }
    if (terms.size() == 2) contract(terms[0], terms[1], out);
    if (terms.size() == 1) sum_into(terms[0], out);
    return fits_;
  }

  Steps steps() { return std::move(steps_); }
  std::size_t scratch_bytes() const { return scratch_; }

 private:
  std::int64_t size(int label) const { return sizes_[static_cast<std::size_t>(label)]; }
  std::int64_t size(const Labels& labels) const {
    std::int64_t n = 1;
    for (const int label : labels) n *= size(label);
    return n;
  }
  static std::int64_t stride(const Term& term, int label) { return term.strides[static_cast<std::size_t>(label)]; }

  std::size_t reserve(std::size_t bytes) {
    const std::size_t at = scratch_;
    scratch_ += round_up(bytes);
    return at;
  }

  Term dense(const Labels& labels) {
    fits_ = fits_ && labels.size() <= kMaxRank;
    Term term{labels, std::vector<std::int64_t>(sizes_.size(), 0), Term::kScratch, 0};
    std::int64_t step = 1;
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      term.strides[static_cast<std::size_t>(*label)] = step;
      step *= size(*label);
    }
    term.offset = reserve(static_cast<std::size_t>(step) * sizeof(T));
    return term;
  }

  std::pair<std::size_t, std::size_t> cheapest_pair(const std::vector<Term>& terms) const {
    std::pair<std::size_t, std::size_t> best{0, 1};
    double least = -1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      for (std::size_t j = i + 1; j < terms.size(); ++j) {
        double work = static_cast<double>(size(terms[i].labels));
        for (const int label : terms[j].labels) work *= has(terms[i].labels, label) ? 1.0 : double(size(label));
        if (least >= 0 && work >= least) continue;
        least = work;
        best = {i, j};
      }
    }
    return best;
  }

  Loops loops(const Labels& labels, std::initializer_list<const Term*> terms) {
    fits_ = fits_ && labels.size() <= kMaxRank;
    if (!fits_) return {};
    Shape shape;
    std::vector<Shape> strides(terms.size());
    for (const int label : labels) {
      shape.push_back(size(label));
      std::size_t k = 0;
      for (const Term* term : terms) strides[k++].push_back(stride(*term, label));
    }
    return collapse(shape, strides);
  }

  static Labels only(const Labels& labels, auto&& wanted) {
    Labels out;
    std::copy_if(labels.begin(), labels.end(), std::back_inserter(out), wanted);
    return out;
  }

  void copy(const Term& from, const Term& to) {
    fits_ = fits_ && to.labels.size() <= kMaxRank;
    if (!fits_) return;
    Shape shape, source, target;
    for (const int label : to.labels) {
      shape.push_back(size(label));
      source.push_back(stride(from, label));
      target.push_back(stride(to, label));
    }
    steps_.push_back([=](const Launch& launch) {
      copy_strided({{shape.begin(), shape.end()},
                    from.at<T>(launch),
                    {source.begin(), source.end()},
                    to.at<T>(launch),
                    {target.begin(), target.end()},
                    static_cast<int>(sizeof(T))});
    });
  }

  // Sum over one dense axis of a dense operand, in the order of the result.
  static std::optional<ReduceShape> dense_sum(const Loops& result, const Loops& summed) {
    if (summed.shape.rank() != 1 || result.shape.rank() > 2) return std::nullopt;
    ReduceShape shape{.axis = summed.shape[0]};
    const std::int64_t step = summed.strides[0][0];
    int d = result.shape.rank();
    if (d > 0 && result.strides[0][d - 1] == 1) shape.inner = result.shape[--d];
    if (d > 0) shape.outer = result.shape[--d];
    if (d > 0 || step != shape.inner) return std::nullopt;
    const bool outer_fits = shape.outer == 1 || result.strides[0][0] == shape.axis * shape.inner;
    if (!outer_fits || !is_contiguous(result.shape, result.strides[2])) return std::nullopt;
    return shape;
  }

  void sum_into(const Term& from, const Term& to) {
    const Labels summed = only(from.labels, [&](int l) { return !has(to.labels, l); });
    if (summed.empty()) return copy(from, to);
    const Term one{{}, std::vector<std::int64_t>(sizes_.size(), 0)};
    const ThinProduct<T> product{loops(to.labels, {&from, &one, &to}), loops(summed, {&from, &one})};
    if (!fits_) return;
    if (const auto shape = dense_sum(product.result, product.summed)) {
      steps_.push_back([=](const Launch& launch) { reduce_sum(from.at<T>(launch), to.at<T>(launch), *shape); });
      return;
    }
    steps_.push_back([=](const Launch& launch) {
      const T unit = 1;
      product.run(from.at<T>(launch), &unit, to.at<T>(launch));
    });
  }

  // Term without the labels that neither the other operand nor the result has.
  Term prepared(const Term& a, const Term& b, const Term& c) {
    const Labels kept = only(a.labels, [&](int l) { return has(b.labels, l) || has(c.labels, l); });
    if (kept.size() == a.labels.size()) return a;
    Term sum = dense(kept);
    sum_into(a, sum);
    return sum;
  }

  void contract(const Term& first, const Term& second, const Term& c) {
    const Term a = prepared(first, second, c), b = prepared(second, first, c);
    const auto shared = [&](int l) { return has(a.labels, l) && has(b.labels, l); };
    const Labels k = only(a.labels, [&](int l) { return shared(l) && !has(c.labels, l); });
    const Labels m = only(c.labels, [&](int l) { return !has(b.labels, l); });
    const Labels n = only(c.labels, [&](int l) { return !has(a.labels, l); });
    const Labels batch = only(c.labels, shared);
    if (size(k) == 1 || (size(m) == 1 && size(n) == 1)) {
      const ThinProduct<T> product{loops(c.labels, {&a, &b, &c}), loops(k, {&a, &b})};
      steps_.push_back([=](const Launch& launch) { product.run(a.at<T>(launch), b.at<T>(launch), c.at<T>(launch)); });
      return;
    }
    if (multiply(a, b, c, batch, m, n, k) || multiply(b, a, c, batch, n, m, k)) return;
    Labels order = batch;
    order.insert(order.end(), m.begin(), m.end());
    order.insert(order.end(), n.begin(), n.end());
    const Term made = dense(order);
    if (fits_ && multiply(a, b, made, batch, m, n, k)) copy(made, c);
  }

  // Common stride of a group of labels traversed as one; 0 if there is none.
  std::int64_t together(const Term& term, const Labels& group) const {
    std::int64_t step = 0, next = 0;
    bool started = false;
    for (auto label = group.rbegin(); label != group.rend(); ++label) {
      if (size(*label) == 1) continue;
      const std::int64_t own = stride(term, *label);
      if (own == 0) return 0;  // broadcast view
      if (!started) step = next = own;
      started = true;
      if (own != next) return 0;
      next *= size(*label);
    }
    return step;
  }

  // Matrix view with its leading dimension and transposition; memory that is not a matrix is copied.
  struct Matrix {
    Term term;
    std::int64_t ld;
    bool trans;
  };
  std::optional<Matrix> matrix(const Term& term, const Labels& rows, const Labels& cols) const {
    const std::int64_t r = size(rows) == 1 ? 0 : together(term, rows), c = size(cols) == 1 ? 0 : together(term, cols);
    const bool one_row = size(rows) == 1, one_col = size(cols) == 1;
    if ((c == 1 || one_col) && (r > 0 || one_row)) return Matrix{term, one_row ? size(cols) : r, false};
    if ((r == 1 || one_row) && (c > 0 || one_col)) return Matrix{term, one_col ? size(rows) : c, true};
    return std::nullopt;
  }
  Matrix matrix_of(const Term& term, const Labels& batch, const Labels& rows, const Labels& cols) {
    if (const auto found = matrix(term, rows, cols)) return *found;
    Labels order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), cols.begin(), cols.end());
    const Term made = dense(order);
    copy(term, made);
    return {made, size(cols), false};
  }

  // One gemm per batch entry; returns false if c cannot be written as a matrix of m rows.
  bool multiply(const Term& a, const Term& b, const Term& c, const Labels& batch, const Labels& m, const Labels& n,
                const Labels& k) {
    const auto target = matrix(c, m, n);
    if (!target || target->trans) return false;
    const Matrix left = matrix_of(a, batch, m, k), right = matrix_of(b, batch, k, n);
    if (!fits_) return true;
    const GemmShape shape{.m = size(m),
                          .n = size(n),
                          .k = size(k),
                          .trans_a = left.trans,
                          .trans_b = right.trans,
                          .lda = left.ld,
                          .ldb = right.ld,
                          .ldc = target->ld};
    BatchedProduct product = plan_batches(shape, size(batch), threads_, sizeof(T));
    for (const int label : batch) {
      product.batch.push_back(size(label));
      product.a_strides.push_back(stride(left.term, label));
      product.b_strides.push_back(stride(right.term, label));
      product.c_strides.push_back(stride(c, label));
    }
    const std::size_t scratch = reserve(product.scratch_bytes());
    steps_.push_back([=](const Launch& l) {
      product.each(static_cast<std::byte*>(l.scratch) + scratch, [&](auto i, auto j, auto at, void* own) {
        gemm(product.plan, left.term.template at<T>(l) + i, right.term.template at<T>(l) + j, c.at<T>(l) + at, {}, own);
      });
    });
    return true;
  }

  std::vector<std::int64_t> sizes_;
  int threads_;
  Steps steps_{};
  std::size_t scratch_ = 0;
  bool fits_ = true;
};

// Term with each label once, without labels of size 1.
Term term_of(const Labels& labels, const ArgDesc& arg, const op::EinsumLabels& all, int source) {
  Term term{{}, op::label_strides(labels, arg.shape, arg.strides, all.sizes), source, 0};
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const auto size = all.sizes[static_cast<std::size_t>(labels[d])];
    if (size == 1 || arg.shape[static_cast<int>(d)] != size || has(term.labels, labels[d])) continue;
    term.labels.push_back(labels[d]);
  }
  return term;
}

template <class T>
std::unique_ptr<Plan> plan_einsum(const PlanRequest& request) {
  std::vector<Shape> shapes;
  for (const auto& arg : request.in) shapes.push_back(arg.shape);
  const op::EinsumLabels labels = op::read_equation(request.attrs.as<op::EinsumAttrs>().equation.str(), shapes);
  const std::int64_t n = request.out[0].shape.numel();
  if (std::find(labels.sizes.begin(), labels.sizes.end(), 0) != labels.sizes.end())
    return make_plan([n](const Launch& launch) { std::fill_n(static_cast<T*>(launch.out[0]), n, T{0}); });
  std::vector<Term> terms;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    terms.push_back(term_of(labels.in[i], request.in[i], labels, static_cast<int>(i)));
  const Term out = term_of(labels.out, request.out[0], labels, Term::kOutput);
  Builder<T> builder(labels.sizes, request.threads);
  if (!builder.build(terms, out)) return nullptr;
  Labels unique = labels.out;
  std::sort(unique.begin(), unique.end());
  const bool diagonal = std::adjacent_find(unique.begin(), unique.end()) != unique.end();
  return make_plan(builder.scratch_bytes(), [=, steps = builder.steps()](const Launch& launch) {
    if (diagonal) std::fill_n(static_cast<T*>(launch.out[0]), n, T{0});
    for (const auto& step : steps) step(launch);
  });
}

}  // namespace

void register_cpu_einsum(KernelTable& table) {
  table.add("einsum", DeviceKind::cpu,
            {"contract", Accepts::strided, [](const PlanRequest& request) -> std::unique_ptr<Plan> {
               if (request.in[0].dtype == DType::f32) return plan_einsum<float>(request);
               if (request.in[0].dtype == DType::f64) return plan_einsum<double>(request);
               return nullptr;
             }});
}

}  // namespace starling::kernels
