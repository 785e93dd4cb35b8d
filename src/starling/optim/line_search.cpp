#include "starling/optim/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling::optim {
namespace {

// Minimum, within bounds, of the cubic through two points with their slopes; the midpoint where there is none.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double least, double most) {
  const LinePoint& left = a.t <= b.t ? a : b;
  const LinePoint& right = a.t <= b.t ? b : a;
  const double d1 = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.t - right.t);
  const double square = d1 * d1 - left.slope * right.slope;
  if (!(square >= 0)) return (least + most) / 2;
  const double d2 = std::sqrt(square);
  const double share = (right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2);
  return std::min(std::max(right.t - (right.t - left.t) * share, least), most);
}

class Search {
 public:
  Search(const LinePoint& start, double longest, const std::function<LinePoint(double)>& at,
         const LineSearchOptions& options)
      : start_(start), longest_(longest), at_(at), o_(options) {}

  LinePoint run(double first) {
    bracket(first);
    while (!found_ && tried_ < o_.evaluations && std::abs(b_.t - a_.t) * longest_ >= o_.smallest) narrow();
    return a_.loss <= b_.loss ? a_ : b_;
  }

 private:
  bool too_high(const LinePoint& p) const { return p.loss > start_.loss + o_.decrease * p.t * start_.slope; }
  bool flat(const LinePoint& p) const { return std::abs(p.slope) <= -o_.curvature * start_.slope; }

  LinePoint next(double t) {
    ++tried_;
    return at_(t);
  }

  // Extends the step until a point is flat enough, or a minimum lies between a_ and b_.
  void bracket(double first) {
    LinePoint before = start_, here = at_(first);
    while (tried_ < o_.evaluations) {
      const bool rises = tried_ > 1 && here.loss >= before.loss;
      if (too_high(here) || rises || (!flat(here) && here.slope >= 0)) return set(std::move(before), std::move(here));
      if (flat(here)) {
        found_ = true;
        return set(here, here);
      }
      const double t = cubic_minimum(before, here, here.t + 0.01 * (here.t - before.t), 10 * here.t);
      before = std::exchange(here, next(t));
    }
    set(start_, std::move(here));
  }

  void set(LinePoint a, LinePoint b) {
    a_ = std::move(a);
    b_ = std::move(b);
  }

  // Length inside the bracket, kept away from its ends if the last one was not.
  double inside() {
    const double left = std::min(a_.t, b_.t), right = std::max(a_.t, b_.t), margin = 0.1 * (right - left);
    const double t = cubic_minimum(a_, b_, left, right);
    if (std::min(right - t, t - left) >= margin) {
      at_edge_ = false;
      return t;
    }
    if (!at_edge_ && t > left && t < right) {
      at_edge_ = true;
      return t;
    }
    at_edge_ = false;
    return std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
  }

  void narrow() {
    const double t = inside();
    LinePoint here = next(t);
    LinePoint& low = a_.loss <= b_.loss ? a_ : b_;
    LinePoint& high = a_.loss <= b_.loss ? b_ : a_;
    if (too_high(here) || here.loss >= low.loss) {
      high = std::move(here);
      return;
    }
    if (flat(here))
      found_ = true;
    else if (here.slope * (high.t - low.t) >= 0)
      high = low;
    low = std::move(here);
  }

  const LinePoint& start_;
  double longest_;
  const std::function<LinePoint(double)>& at_;
  const LineSearchOptions& o_;
  LinePoint a_, b_;
  int tried_ = 0;
  bool found_ = false;
  bool at_edge_ = false;
};

}  // namespace

LinePoint strong_wolfe(const LinePoint& start, double first, double longest,
                       const std::function<LinePoint(double t)>& at, const LineSearchOptions& options) {
  return Search(start, longest, at, options).run(first);
}

}  // namespace starling::optim
