#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "testing/file_calls.h"

// A model of what a disk may hold after a crash, after "All File Systems Are Not Created Equal" (Pillai et al., 2014).
// Bytes written to a file, and names created, moved or removed in a folder, are safe once that file, or that folder,
// has been synced. Of everything else any part may be there and any part lost, in whatever order it was done: bytes
// also by half, or as zeros. A move or an exchange happens as a whole.
namespace starling::testing {

class DiskModel {
 public:
  using Tree = std::map<std::string, std::string>;  // contents by path; folders end with a slash

  // `root` exists and is safe, and calls outside of it are ignored.
  DiskModel(const std::string& root, const std::vector<FileCall>& calls) {
    inodes_ = 1;
    folders_.push_back({});
    std::map<std::string, int> now{{root, 0}};
    for (const FileCall& call : calls) add(call, now, root);
  }

  std::size_t size() const { return changes_.size(); }
  bool is_sync(std::size_t i) const { return changes_[i].kind == Kind::sync; }
  long mark(std::size_t i) const { return changes_[i].kind == Kind::mark ? changes_[i].number : -1; }

  // Calls `see` with states of the disk after a crash behind the first `prefix` calls: all there are, or `most` of them
  // at random. Ends early once `see` returns false. Without the call `lost_sync`, as if nobody had made it; -1: all.
  template <class See>
  bool crash(std::size_t prefix, std::size_t most, std::ptrdiff_t lost_sync, See&& see) const {
    std::vector<std::size_t> open;  // changes that are not safe
    double states = 1;
    for (std::size_t i = 0; i < prefix; ++i) {
      if (!changes(i) || safe(i, prefix, lost_sync)) continue;
      open.push_back(i);
      states *= outcomes(i);
    }
    std::vector<int> outcome(size(), kWhole);
    std::mt19937 random(static_cast<unsigned>(prefix));
    const bool all = states <= static_cast<double>(most);
    const auto count = all ? static_cast<std::size_t>(states) : most;
    for (std::size_t n = 0; n < count; ++n) {
      std::size_t left = n;
      for (const std::size_t i : open) {
        const auto ways = static_cast<std::size_t>(outcomes(i));
        outcome[i] = static_cast<int>((all ? left : random()) % ways);
        left /= ways;
      }
      if (!see(tree(prefix, outcome))) return false;
    }
    return true;
  }

 private:
  enum class Kind { bytes, names, sync, mark };
  static constexpr int kWhole = 0, kLost = 1, kHalf = 2, kZeros = 3;
  struct Name {
    int folder;
    std::string name;
    int inode;  // -1: the name is gone
  };
  struct Change {
    Kind kind = Kind::mark;
    int inode = 0;  // of bytes and sync
    std::size_t offset = 0;
    std::string bytes{};
    std::vector<Name> names{};
    long number = 0;
  };

  bool changes(std::size_t i) const { return changes_[i].kind == Kind::bytes || changes_[i].kind == Kind::names; }
  int outcomes(std::size_t i) const { return changes_[i].kind == Kind::bytes ? 4 : 2; }

  bool safe(std::size_t i, std::size_t prefix, std::ptrdiff_t lost_sync) const {
    const Change& change = changes_[i];
    const int where = change.kind == Kind::bytes ? change.inode : change.names.front().folder;
    for (std::size_t j = i + 1; j < prefix; ++j) {
      if (is_sync(j) && changes_[j].inode == where && static_cast<std::ptrdiff_t>(j) != lost_sync) return true;
    }
    return false;
  }

  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  // Moves what the paths at and below `from` stand for to `to`.
  static void rename(std::map<std::string, int>& now, const std::string& from, const std::string& to) {
    std::map<std::string, int> moved;
    for (const auto& [path, inode] : now) {
      const bool below = path == from || path.starts_with(from + "/");
      moved[below ? to + path.substr(from.size()) : path] = inode;
    }
    now = std::move(moved);
  }

  void add(const FileCall& call, std::map<std::string, int>& now, const std::string& root) {
    if (call.kind == FileCall::mark) return changes_.push_back({.number = call.number});
    const auto known = now.find(call.path);
    const auto folder = now.find(parent(call.path));
    if (!call.path.starts_with(root)) return;
    switch (call.kind) {
      case FileCall::create:
      case FileCall::make_folder: {
        const int inode = inodes_++;
        sizes_.resize(static_cast<std::size_t>(inodes_));
        folders_.resize(static_cast<std::size_t>(inodes_));
        folders_[static_cast<std::size_t>(inode)] = call.kind == FileCall::make_folder;
        changes_.push_back({.kind = Kind::names, .names = {{folder->second, base(call.path), inode}}});
        now[call.path] = inode;
        return;
      }
      case FileCall::write: {
        std::size_t& size = sizes_[static_cast<std::size_t>(known->second)];
        changes_.push_back({.kind = Kind::bytes, .inode = known->second, .offset = size, .bytes = call.bytes});
        size += call.bytes.size();
        return;
      }
      case FileCall::sync: return changes_.push_back({.kind = Kind::sync, .inode = known->second});
      case FileCall::move: {
        changes_.push_back({.kind = Kind::names,
                            .names = {{folder->second, base(call.path), -1},
                                      {now.at(parent(call.to)), base(call.to), known->second}}});
        return rename(now, call.path, call.to);
      }
      case FileCall::exchange: {
        changes_.push_back({.kind = Kind::names,
                            .names = {{folder->second, base(call.path), now.at(call.to)},
                                      {now.at(parent(call.to)), base(call.to), known->second}}});
        rename(now, call.path, root + "/?");
        rename(now, call.to, call.path);
        return rename(now, root + "/?", call.to);
      }
      case FileCall::remove:
        changes_.push_back({.kind = Kind::names, .names = {{folder->second, base(call.path), -1}}});
        now.erase(call.path);
        return;
      case FileCall::mark: return;
    }
  }

  static void put(std::string& file, std::size_t offset, const std::string& bytes) {
    if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size(), '\0');
    file.replace(offset, bytes.size(), bytes);
  }

  Tree tree(std::size_t prefix, const std::vector<int>& outcome) const {
    std::vector<std::map<std::string, int>> names(static_cast<std::size_t>(inodes_));
    std::vector<std::string> files(static_cast<std::size_t>(inodes_));
    for (std::size_t i = 0; i < prefix; ++i) {
      const Change& change = changes_[i];
      if (!changes(i) || outcome[i] == kLost) continue;
      if (change.kind == Kind::bytes) {
        std::string& file = files[static_cast<std::size_t>(change.inode)];
        const std::string& bytes = change.bytes;
        if (outcome[i] == kWhole) put(file, change.offset, bytes);
        if (outcome[i] == kHalf) put(file, change.offset, bytes.substr(0, bytes.size() / 2));
        if (outcome[i] == kZeros) put(file, change.offset, std::string(bytes.size(), '\0'));
        continue;
      }
      for (const Name& name : change.names) {
        auto& folder = names[static_cast<std::size_t>(name.folder)];
        if (name.inode < 0) {
          folder.erase(name.name);
        } else {
          folder[name.name] = name.inode;
        }
      }
    }
    Tree seen;
    collect(0, "", names, files, seen);
    return seen;
  }

  void collect(int inode, const std::string& path, const std::vector<std::map<std::string, int>>& names,
               const std::vector<std::string>& files, Tree& into) const {
    for (const auto& [name, child] : names[static_cast<std::size_t>(inode)]) {
      const std::string at = path + "/" + name;
      if (folders_[static_cast<std::size_t>(child)]) {
        into[at + "/"] = "";
        collect(child, at, names, files, into);
      } else {
        into[at] = files[static_cast<std::size_t>(child)];
      }
    }
  }

  int inodes_ = 1;
  std::vector<bool> folders_;  // by inode
  std::vector<std::size_t> sizes_{0};
  std::vector<Change> changes_;
};

}  // namespace starling::testing
