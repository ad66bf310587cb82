// The precompiled header of all test programs except the emulator's (tests/CMakeLists.txt). Files still include the
// headers they use.
#pragma once

#include <adjoint/adjoint.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>
