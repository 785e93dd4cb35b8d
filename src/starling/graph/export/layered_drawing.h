#pragma once

#include <utility>
#include <vector>

namespace starling::graph {

struct Point {
  double x = 0;
  double y = 0;
};

struct DrawnBox {
  double width = 0;
  double height = 0;
};

// Edges go from earlier to later boxes.
struct DrawnEdge {
  int from = 0;
  int to = 0;
};

// Boxes and edges on paper.
struct LayeredDrawing {
  std::vector<Point> centres;              // by box
  std::vector<std::vector<Point>> routes;  // by edge, from the lower rim of one box to the upper rim of the other
  std::vector<bool> far;                   // edges across many layers, drawn straight behind the boxes
  double width = 0;
  double height = 0;
};

// Layered drawing from top to bottom, every edge leading down: each box one layer below the lowest it depends on, those
// without dependencies just above their first user. Boxes of one layer are ordered so that edges are short and never
// overlap.
LayeredDrawing layered_drawing(const std::vector<DrawnBox>& boxes, const std::vector<DrawnEdge>& edges);

}  // namespace starling::graph
