// What one file has for another: all of float32, rows without gaps.
#pragma once

extern "C" void linear(const float* x, const float* weight, const float* bias, float* y, long tokens, long n,
                       long num_rows);
extern "C" void rms_norm(const float* x, const float* weight, float* to, long tokens, long n, float eps);
void rotate(float* x, const float* cos, const float* sin, long tokens, long heads, long size, long stride);
void gate(const float* x, float* to, long tokens, long n);
