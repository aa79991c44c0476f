// A progress bar on standard error, where that is a terminal; else nothing.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace kvcert::certify {

class Progress {
 public:
  /// `total` counts work in whatever unit tick() is called with.
  explicit Progress(std::uint64_t total) : total_(total), visible_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { erase(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void label(const std::string& text) { label_ = text; }

  void tick(std::uint64_t units = 1) {
    done_ += units;
    if (!visible_) return;
    const auto now = Clock::now();
    if (now - drawn_ < std::chrono::milliseconds(80)) return;
    drawn_ = now;
    draw(now);
  }

  /// Takes the bar away so that a line can be printed.
  void erase() const {
    if (visible_) std::fputs("\r\033[K", stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void draw(Clock::time_point now) const {
    const double part = total_ == 0 ? 1 : static_cast<double>(done_) / static_cast<double>(total_);
    const double elapsed = std::chrono::duration<double>(now - begin_).count();
    constexpr std::size_t width = 24;
    const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
    std::string bar(filled, '#');
    bar.append(width - (filled < width ? filled : width), '.');
    // The rest at the pace so far; before a few seconds have passed that would be a guess, and none is shown.
    const std::string rest = elapsed < 3 ? "" : fmt::format(", about {:.0f} s left", elapsed / part - elapsed);
    fmt::print(stderr, "\r\033[K[{}] {:3.0f} %{}  {}", bar, part * 100, rest, label_);
    std::fflush(stderr);
  }

  std::uint64_t total_;
  std::uint64_t done_ = 0;
  bool visible_;
  std::string label_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_{};
};

}  // namespace kvcert::certify
