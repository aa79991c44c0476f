#include "certify/foreign/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

namespace kvcert::certify {
namespace {

using Clock = std::chrono::steady_clock;

void close_one(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

/// The line of a sanitizer's report that says what it is.
std::string report_in(const std::string& errors) {
  for (const char* sign : {"ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "WARNING: MemorySanitizer",
                           "runtime error:", "Sanitizer:"}) {
    const auto at = errors.find(sign);
    if (at == std::string::npos) continue;
    const auto begin = errors.rfind('\n', at) + 1;
    return errors.substr(begin, errors.find('\n', at) - begin);
  }
  return {};
}

}  // namespace

std::string Child::start() {
  if (running()) return {};
  signal(SIGPIPE, SIG_IGN);  // a child that is gone is a finding, and not our end
  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& ends : pipes) {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return fmt::format("no pipe: {}", std::strerror(errno));
  }
  std::vector<char*> arguments;
  for (std::string& word : command_) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) return fmt::format("no process: {}", std::strerror(errno));
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphan where this program is stopped
    dup2(pipes[0][0], STDIN_FILENO);
    dup2(pipes[1][1], STDOUT_FILENO);
    dup2(pipes[2][1], STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  in_ = pipes[0][1];
  out_ = pipes[1][0];
  err_ = pipes[2][0];
  close(pipes[0][0]);
  close(pipes[1][1]);
  close(pipes[2][1]);
  fcntl(in_, F_SETFL, O_NONBLOCK);
  fcntl(out_, F_SETFL, O_NONBLOCK);
  fcntl(err_, F_SETFL, O_NONBLOCK);
  buffered_.clear();
  errors_.clear();
  return {};
}

void Child::end() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  for (int* descriptor : {&in_, &out_, &err_}) close_one(*descriptor);
}

void Child::read_errors() {
  std::array<char, 4096> block;
  for (ssize_t n = 0; err_ >= 0 && (n = read(err_, block.data(), block.size())) > 0;) {
    errors_.append(block.data(), static_cast<std::size_t>(n));
    if (errors_.size() > 1U << 20U) errors_.erase(0, errors_.size() - (1U << 19U));
  }
}

std::string Child::sanitizer_report() {
  read_errors();
  const std::string report = report_in(errors_);
  if (!report.empty()) errors_.clear();
  return report;
}

std::size_t Child::resident_megabytes() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  std::size_t whole = 0;
  std::size_t resident = 0;
  file >> whole >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) >> 20U;
}

std::string Child::death() {
  int status = 0;
  for (int tries = 0; waitpid(pid_, &status, WNOHANG) == 0; ++tries) {
    if (tries == 200) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      break;
    }
    usleep(10000);
  }
  read_errors();
  const std::string report = report_in(errors_);
  std::string last = errors_;
  while (!last.empty() && last.back() == '\n') last.pop_back();
  if (const auto at = last.rfind('\n'); at != std::string::npos) last = last.substr(at + 1);
  if (last.size() > 200) last = last.substr(0, 200) + "...";
  pid_ = -1;
  for (int* descriptor : {&in_, &out_, &err_}) close_one(*descriptor);
  if (!report.empty()) return "a sanitizer reports " + report;
  if (WIFSIGNALED(status)) return fmt::format("it crashed with signal {} ({}){}", WTERMSIG(status), strsignal(WTERMSIG(status)), last.empty() ? "" : ": " + last);
  return fmt::format("it ended with status {}{}", WEXITSTATUS(status), last.empty() ? "" : ": " + last);
}

Child::Line Child::ask(const std::string* line, const ChildLimits& limits) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  std::string to_send = line == nullptr ? "" : *line + "\n";
  std::size_t sent = 0;
  std::array<char, 65536> block;
  while (true) {
    if (const auto end_of_line = buffered_.find('\n'); sent == to_send.size() && end_of_line != std::string::npos) {
      Line got{buffered_.substr(0, end_of_line), {}, false};
      buffered_.erase(0, end_of_line + 1);
      return got;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      end();
      return {std::nullopt, fmt::format("it did not answer within {} s", limits.seconds), true};
    }
    std::array<pollfd, 3> waits{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}, pollfd{sent < to_send.size() ? in_ : -1, POLLOUT, 0}};
    poll(waits.data(), waits.size(), static_cast<int>(left < 50 ? left : 50));
    if (limits.megabytes != 0 && waits[0].revents == 0 && resident_megabytes() > limits.megabytes) {
      end();
      return {std::nullopt, fmt::format("it took more than {} MB of memory", limits.megabytes), true};
    }
    if ((waits[2].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t n = write(in_, to_send.data() + sent, to_send.size() - sent);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN) return {std::nullopt, death(), false};
    }
    if (waits[1].revents != 0) read_errors();
    if ((waits[0].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t n = read(out_, block.data(), block.size());
      if (n > 0) buffered_.append(block.data(), static_cast<std::size_t>(n));
      if (n == 0 || (n < 0 && errno != EAGAIN)) return {std::nullopt, death(), false};
    }
  }
}

}  // namespace kvcert::certify
