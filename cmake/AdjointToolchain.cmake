# Language standards, warnings, visibility, ccache and CUDA, for every target that follows.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# adjoint_default(<variable> <type> <value> <doc>): the value of what nobody has set. In the cache, where it can be changed,
# if this is the whole project; as a part of another, for this folder alone, for the other targets are the parent's.
macro(adjoint_default variable type value doc)
  if("${${variable}}" STREQUAL "")
    if(PROJECT_IS_TOP_LEVEL)
      set(${variable} "${value}" CACHE ${type} "${doc}" FORCE)
    else()
      set(${variable} "${value}")
    endif()
  endif()
endmacro()

adjoint_default(BUILD_SHARED_LIBS BOOL ON "Build a shared library")
if(NOT CMAKE_CONFIGURATION_TYPES)
  adjoint_default(CMAKE_BUILD_TYPE STRING Release "Debug, Release, RelWithDebInfo or MinSizeRel")
endif()

# ccache shares objects with clones at other paths: the paths in commands and in objects are relative to the tree.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
# -O3 takes half as long again to compile. Two of its passes give all that it gains here.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  string(REPLACE "-O3 -DNDEBUG" "-O2 -fvect-cost-model=dynamic -funswitch-loops -DNDEBUG" CMAKE_CXX_FLAGS_RELEASE
         "${CMAKE_CXX_FLAGS_RELEASE}")
endif()
find_program(ADJOINT_CCACHE ccache)
if(ADJOINT_CCACHE)
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true)
  # Without the sloppiness ccache never reuses objects that use a precompiled header. Depend mode keys an object by its
  # sources and not by their preprocessed text. GCC recognises a header inside a precompiled one by its bytes, so an
  # object that was cached before a comment changed would include that header twice.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=true)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_PCH_EXTSUM=true ${CMAKE_CURRENT_LIST_DIR}/ccache_clang)
    # CMake names the header's source too, by a path that ccache leaves absolute. clang finds the text in the header.
    set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
  endif()
  list(APPEND CMAKE_CXX_COMPILER_LAUNCHER ${ADJOINT_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher} ${ADJOINT_CCACHE})
endif()

# Designated initialisers leave the other fields at their defaults on purpose. Without CUDA, clang sees fields that
# nothing reads; under sanitizers it does not vectorise the loops that ask for it. GCC 12's warnings about memory in
# inlined library code are often wrong, so they are no errors.
add_library(adjoint_warnings INTERFACE)
target_compile_options(adjoint_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>"
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unused-private-field;-Wno-pass-failed>"
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${ADJOINT_WERROR}>>:-Werror>"
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=array-bounds;-Wno-error=stringop-overflow;-Wno-error=maybe-uninitialized>")

if(ADJOINT_SANITIZE)
  # Optimised enough to finish; with assertions, Eigen's too, and with line numbers.
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ADJOINT_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-O1;-g1>")
  add_link_options(-fsanitize=${ADJOINT_SANITIZE})
endif()

# On processors that can round a product and a sum together, compilers do so depending on a loop's form. Two paths of one
# sum would then differ in their last bits, and positions would cross the edge of a pixel.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
endif()

set(ADJOINT_WITH_CUDA OFF)
if(NOT ADJOINT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    adjoint_default(CMAKE_CUDA_ARCHITECTURES STRING "80;90a-real" "A100 machine code and PTX, H100/H200 machine code")
    enable_language(CUDA)
    find_package(CUDAToolkit 12.4 REQUIRED)
    set(ADJOINT_WITH_CUDA ON)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    # CMake 3.25 does not know CUDA C++20 and would compile C++17.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    # nvcc always optimises kernels fully. The level is the host compiler's, and the host code of a .cu file only launches.
    string(REPLACE "-O3 -DNDEBUG" "-O1 -DNDEBUG" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    # Kernels shrink to a fifth and are expanded when first used.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
    else()
      add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xfatbin=-compress-all>)
    endif()
  elseif(ADJOINT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ADJOINT_CUDA is ON, but no CUDA compiler was found: install the CUDA Toolkit (12.4 or newer) or "
                        "name nvcc in CMAKE_CUDA_COMPILER")
  endif()
endif()
message(STATUS "Adjoint: CUDA kernels ${ADJOINT_WITH_CUDA}")
