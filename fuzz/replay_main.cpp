// Runs a fuzz target over files and folders, with any compiler: replay FILE|FOLDER…
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fuzz/thorough.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::string current;  // the input being run, for the last words of a target that aborts

extern "C" void last_words(int number) {
  // Only async-signal-safe calls here.
  [[maybe_unused]] auto written = write(STDERR_FILENO, current.data(), current.size());
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

int main(int argc, char** argv) {
  kvcert::fuzz::thorough = true;
  std::set<std::filesystem::path> inputs;  // sorted: the same order on every file system
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::exists(argv[i])) {
      std::cerr << argv[i] << ": no such file or folder\n";
      return 2;
    }
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) inputs.insert(entry.path());
      }
    } else {
      inputs.insert(argv[i]);
    }
  }
  for (int number : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) std::signal(number, last_words);
  for (const auto& path : inputs) {
    current = "while running " + path.string() + "\n";
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::cout << inputs.size() << " inputs replayed\n";
  return inputs.empty() ? 1 : 0;  // nothing to run is no success
}
