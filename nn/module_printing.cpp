// A module as text, like PyTorch's.
#include <adjoint/nn/module_state.h>

#include <ostream>

namespace adjoint::nn {

std::string to_string(const Module& module) {
  struct Printer {
    std::string text;
    // `line` begins each line: a line feed and the indentation.
    void operator()(const Module& of, const std::string& line) {
      const Module::State& own = of.state("to_string");
      const bool alone = own.children.empty();
      const std::string inner = alone ? line : line + "  ";
      text += own.type + "(";
      if (!alone && !own.description.empty()) text += inner;
      for (const char c : own.description) text += c == '\n' ? inner : std::string(1, c);
      for (const auto& slot : own.children) {
        text += inner + "(" + slot->name + "): ";
        if (slot->module) {
          (*this)(*slot->module, inner);
        } else {
          text += "None";
        }
      }
      text += alone ? ")" : line + ")";
    }
  } printer;
  printer(module, "\n");
  return printer.text;
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << to_string(module); }

}  // namespace adjoint::nn
