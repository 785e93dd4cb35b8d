#include "starling/graph/export/layered_drawing.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace starling::graph {
namespace {

constexpr double kGapX = 14;
constexpr double kGapY = 34;
constexpr double kBendWidth = 6;  // width of an edge passing a layer
constexpr int kFar = 10;          // longer edges are drawn behind the boxes
constexpr int kSweeps = 8;

// A box, or the bend of an edge that passes a layer; both are placed in the same way.
struct Item {
  double width = 0;
  int layer = 0;
  double x = 0;
  std::vector<int> above, below;
};

class Layering {
 public:
  Layering(const std::vector<DrawnBox>& boxes, const std::vector<DrawnEdge>& edges) : boxes_(boxes), edges_(edges) {}

  LayeredDrawing run() {
    items_.resize(boxes_.size());
    for (std::size_t i = 0; i < boxes_.size(); ++i) items_[i].width = boxes_[i].width;
    choose_layers();
    link();
    fill_layers();
    for (int sweep = 0; sweep < kSweeps; ++sweep) sort_layers(sweep % 2 == 0);
    for (auto& layer : layers_) pack(layer);
    for (int sweep = 0; sweep < 2 * kSweeps; ++sweep) straighten(sweep % 2 == 0);
    return described();
  }

 private:
  Item& item(int id) { return items_[static_cast<std::size_t>(id)]; }
  std::vector<int>& layer(int index) { return layers_[static_cast<std::size_t>(index)]; }

  void choose_layers() {
    std::vector<bool> has_input(boxes_.size(), false);
    std::vector<int> first_user(boxes_.size(), std::numeric_limits<int>::max());
    // Boxes are in topological order.
    std::vector<std::vector<int>> into(boxes_.size());
    for (const auto& edge : edges_) into[static_cast<std::size_t>(edge.to)].push_back(edge.from);
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      for (int from : into[i]) items_[i].layer = std::max(items_[i].layer, item(from).layer + 1);
      has_input[i] = !into[i].empty();
    }
    for (const auto& edge : edges_) {
      int& first = first_user[static_cast<std::size_t>(edge.from)];
      first = std::min(first, item(edge.to).layer);
    }
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      if (!has_input[i] && first_user[i] != std::numeric_limits<int>::max())
        items_[i].layer = std::max(0, first_user[i] - 1);
    }
  }

  void link() {
    for (const auto& edge : edges_) {
      const int begin = item(edge.from).layer, end = item(edge.to).layer;
      std::vector<int> way{edge.from};
      if (end - begin <= kFar) {
        for (int l = begin + 1; l < end; ++l) {
          way.push_back(static_cast<int>(items_.size()));
          items_.push_back({.width = kBendWidth, .layer = l, .x = 0, .above = {}, .below = {}});
        }
        way.push_back(edge.to);
        for (std::size_t i = 0; i + 1 < way.size(); ++i) {
          item(way[i]).below.push_back(way[i + 1]);
          item(way[i + 1]).above.push_back(way[i]);
        }
      } else {
        way.push_back(edge.to);
      }
      ways_.push_back(std::move(way));
    }
  }

  void fill_layers() {
    int deepest = 0;
    for (const auto& one : items_) deepest = std::max(deepest, one.layer);
    layers_.resize(static_cast<std::size_t>(deepest) + 1);
    for (std::size_t i = 0; i < items_.size(); ++i) layer(items_[i].layer).push_back(static_cast<int>(i));
    for (auto& one : layers_) number(one);
  }

  void number(const std::vector<int>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) item(ids[i]).x = static_cast<double>(i);
  }

  double middle(const std::vector<int>& neighbours, double otherwise) {
    if (neighbours.empty()) return otherwise;
    double sum = 0;
    for (int id : neighbours) sum += item(id).x;
    return sum / static_cast<double>(neighbours.size());
  }

  // Moves each item towards the middle of its neighbours in the layer just sorted.
  void sort_layers(bool down) {
    const auto count = static_cast<int>(layers_.size());
    for (int step = 0; step < count; ++step) {
      auto& ids = layer(down ? step : count - 1 - step);
      std::vector<std::pair<double, int>> keys;
      for (int id : ids) keys.emplace_back(middle(down ? item(id).above : item(id).below, item(id).x), id);
      std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = keys[i].second;
      number(ids);
    }
  }

  double apart(int left, int right) { return (item(left).width + item(right).width) / 2 + kGapX; }

  void pack(const std::vector<int>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      item(ids[i]).x = i == 0 ? 0 : item(ids[i - 1]).x + apart(ids[i - 1], ids[i]);
    const double centre = ids.empty() ? 0 : item(ids.back()).x / 2;
    for (int id : ids) item(id).x -= centre;
  }

  // Positions nearest to the wanted ones that keep order and distances: neighbours that would come too close move as
  // one block to the mean of their wanted positions.
  void settle(const std::vector<int>& ids, const std::vector<double>& wanted) {
    struct Block {
      double sum, count;
      std::size_t begin;
      double mean() const { return sum / count; }
    };
    std::vector<double> offset(ids.size(), 0);
    for (std::size_t i = 1; i < ids.size(); ++i) offset[i] = offset[i - 1] + apart(ids[i - 1], ids[i]);
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      blocks.push_back({wanted[i] - offset[i], 1, i});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
        const Block last = blocks.back();
        blocks.pop_back();
        blocks.back().sum += last.sum;
        blocks.back().count += last.count;
      }
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const std::size_t end = b + 1 < blocks.size() ? blocks[b + 1].begin : ids.size();
      for (std::size_t i = blocks[b].begin; i < end; ++i) item(ids[i]).x = blocks[b].mean() + offset[i];
    }
  }

  void straighten(bool down) {
    const auto count = static_cast<int>(layers_.size());
    for (int step = 0; step < count; ++step) {
      const auto& ids = layer(down ? step : count - 1 - step);
      std::vector<double> wanted;
      for (int id : ids) {
        // Both sides, or deep graphs would drift to one.
        const double x = item(id).x;
        wanted.push_back(
            (middle(item(id).above, middle(item(id).below, x)) + middle(item(id).below, middle(item(id).above, x))) /
            2);
      }
      settle(ids, wanted);
    }
  }

  LayeredDrawing described() {
    double left = 0, right = 0;
    for (const auto& one : items_) {
      left = std::min(left, one.x - one.width / 2);
      right = std::max(right, one.x + one.width / 2);
    }
    std::vector<double> heights(layers_.size(), 0), middles(layers_.size(), 0);
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      double& height = heights[static_cast<std::size_t>(items_[i].layer)];
      height = std::max(height, boxes_[i].height);
    }
    LayeredDrawing made;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      middles[l] = made.height + heights[l] / 2;
      made.height += heights[l] + (l + 1 < layers_.size() ? kGapY : 0);
    }
    made.width = right - left;
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      made.centres.push_back({items_[i].x - left, middles[static_cast<std::size_t>(items_[i].layer)]});
    for (std::size_t e = 0; e < edges_.size(); ++e) made.routes.push_back(route(e, made, middles, left));
    for (const auto& edge : edges_) made.far.push_back(item(edge.to).layer - item(edge.from).layer > kFar);
    return made;
  }

  std::vector<Point> route(std::size_t edge, const LayeredDrawing& made, const std::vector<double>& middles,
                           double left) {
    const auto& way = ways_[edge];
    const auto from = static_cast<std::size_t>(way.front()), to = static_cast<std::size_t>(way.back());
    std::vector<Point> points{{made.centres[from].x, made.centres[from].y + boxes_[from].height / 2}};
    for (std::size_t i = 1; i + 1 < way.size(); ++i)
      points.push_back({item(way[i]).x - left, middles[static_cast<std::size_t>(item(way[i]).layer)]});
    points.push_back({made.centres[to].x, made.centres[to].y - boxes_[to].height / 2});
    return points;
  }

  const std::vector<DrawnBox>& boxes_;
  const std::vector<DrawnEdge>& edges_;
  std::vector<Item> items_;
  std::vector<std::vector<int>> layers_;
  std::vector<std::vector<int>> ways_;  // by edge: ends and bends
};

}  // namespace

LayeredDrawing layered_drawing(const std::vector<DrawnBox>& boxes, const std::vector<DrawnEdge>& edges) {
  if (boxes.empty()) return {};
  return Layering(boxes, edges).run();
}

}  // namespace starling::graph
