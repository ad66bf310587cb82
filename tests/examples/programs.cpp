#include "example_tool.h"

namespace examples {

std::string program_file(const std::string& name) { return ADJOINT_EXAMPLES "/" + name + '/' + name; }

}  // namespace examples
