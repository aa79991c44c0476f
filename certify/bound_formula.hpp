// The accuracy bound of docs/arithmetic.md, printed by proofs/accuracy/Formula.v from the programs of Program.v, which are
// proven there to be the bound of the theorems. Not written by hand: `python3 proofs/accuracy/formula.py --help` says how,
// and `./kvcert prove` fails where the two differ.
#pragma once

#include <cstddef>
#include <vector>

#include "certify/bound_number.hpp"

namespace kvcert::certify {

/// Numbers of a case and of an engine, and what the programs make of them. X is an enclosure of real numbers.
template <class X>
struct BoundFormula {
  // The engine's.
  X u, lambda, lambda_add, epsilon, omega, tau, omega_tanh, u_q, u_k, u_v, u_P, lambda_P;
  std::size_t h_q, r, r_sigma, g_c, L, h_v, h_s, g;
  // The case's. z, A, s, t_capped: rows; t, D: rows and then the sink; v: rows, of one dimension.
  std::size_t head_dim, n, N;
  X scale, c, sigma;
  std::vector<X> z, A, t, D, v;

  // What follows from them.
  std::vector<X> s;
  std::vector<X> D0;
  std::vector<X> t_capped;
  std::vector<X> D_capped;
  X D_sigma;
  X m_plus;
  X m_minus;
  std::vector<X> B;
  X S_min;
  std::vector<X> w;
  X K;
  X H;
  X C;
  X F;
  std::vector<X> Q;
  std::vector<X> wQ;
  std::vector<X> wR;
  X G;
  X Lambda;
  X Delta;
  X S;
  X V;
  X T;
  X main_part;
  X U;
  X bound;

  void scores() {
    s = rows<X>(n, [&](std::size_t p) -> X { return (scale * z[p]); });
    D0 = rows<X>(n, [&](std::size_t p) -> X { return ((abs(scale) * A[p]) * ((((X(1) + u_q) * (X(1) + u_k)) * power(X(1) + u, h_q + r)) - X(1))) + ((((abs(scale) * (count<X>(head_dim) * (lambda + lambda_add))) * power(X(1) + u, h_q)) + (count<X>(r) * lambda)) * power(X(1) + u, r)); });
  }
  void cap() {
    t_capped = rows<X>(n, [&](std::size_t p) -> X { return (c * tanh((s[p] / c))); });
    D_capped = rows<X>(n, [&](std::size_t p) -> X { return (((X(1) + tau) * (X(1) + u)) * (D0[p] + ((power(X(1) + u, g_c) - X(1)) * (abs(s[p]) + D0[p])) + (c * lambda) + ((((count<X>((g_c - 1)) * c) * lambda) * (X(1) + u)) * (abs(s[p]) + D0[p])))) + ((((X(1) + tau) * (X(1) + u)) - X(1)) * abs(t_capped[p])) + ((c * omega_tanh) * (X(1) + u)) + lambda; });
  }
  void sink() {
    D_sigma = (abs(sigma) * (power(X(1) + u, r_sigma) - X(1))) + ((count<X>(r_sigma) * lambda) * power(X(1) + u, r_sigma));
  }
  void head() {
    m_plus = greatest<X>(N, [&](std::size_t p) -> X { return t[p] + D[p]; });
    m_minus = greatest<X>(n, [&](std::size_t p) -> X { return t[p] - D[p]; });
    B = rows<X>(N, [&](std::size_t p) -> X { return D[p] + (u * (maximum(m_plus - t[p], t[p] - m_minus) + D[p])) + (count<X>(1 + L) * ((epsilon / (X(1) - epsilon)) + lambda_add)); });
    S_min = sum<X>(N, [&](std::size_t p) -> X { return exp(t[p] - m_plus); });
    w = rows<X>(N, [&](std::size_t p) -> X { return (exp(t[p] - m_plus) / S_min); });
    K = sum<X>(N, [&](std::size_t p) -> X { return (w[p] * exp(B[p])); });
    H = sum<X>(N, [&](std::size_t p) -> X { return (w[p] * exp((-B[p]))); });
    C = (X(1) / power(X(1) - u, h_s + L));
    F = (X(1) / ((power(X(1) - u, 1 + h_v + L + g) * (X(1) - u_P)) * (X(1) - u_v)));
    Q = rows<X>(n, [&](std::size_t p) -> X { return (((exp(B[p]) * F) * C) / H); });
    wQ = rows<X>(n, [&](std::size_t p) -> X { return (w[p] * Q[p]); });
    wR = rows<X>(n, [&](std::size_t p) -> X { return (w[p] * maximum(Q[p] - X(1), X(1) - (X(1) / (((exp(B[p]) * F) * C) * K)))); });
    G = power(X(1) + epsilon + omega, L);
    Lambda = (count<X>(1 + L) * lambda) + lambda_add;
    Delta = ((power(X(1) + u, h_s + L) * G) * (count<X>(N) * ((count<X>(1 + L) * omega) + Lambda)));
    S = (power(X(1) - u, h_s + L) * (H * S_min)) - Delta;
  }
  void dimension() {
    V = sum<X>(n, [&](std::size_t p) -> X { return abs(v[p]); });
    T = sum<X>(n, [&](std::size_t p) -> X { return (wQ[p] * abs(v[p])); });
    main_part = sum<X>(n, [&](std::size_t p) -> X { return (wR[p] * abs(v[p])); });
    U = (((T * Delta) + (F * (G * (((count<X>(1 + L) * (omega + lambda_P)) * V) + (count<X>(n) * Lambda))))) / S) + (F * (((lambda + lambda_P) * V) + (count<X>(n) * Lambda) + lambda));
    bound = main_part + U;
  }
};

}  // namespace kvcert::certify
