//! A plug-in in Rust, without a crate.
//!
//!     rustc --edition 2021 -O --crate-type cdylib examples/plugin.rs -o plugin.so
//!     kvcert certify --engine ./plugin.so
//!
//! The structs mirror include/kvcert/engine.h. Operations that are null are shown as not judged.
use std::os::raw::{c_char, c_void};

#[repr(C)]
pub struct Config {
    size: usize, kv_heads: usize, head_dim: usize, query_heads: usize, window: usize,
    scale: f32, softcap: f32, sinks: *const f32, layer: u32, identity: u64, variant: u32,
}

type Status = i32; // 0 ok, 1 unsupported, 2 refused
const OK: Status = 0;
type Unused = *const c_void; // a null function pointer

#[repr(C)]
pub struct Engine {
    abi: u32, size: usize, name: *const c_char, version: *const c_char, claims: u32,
    key_storage: i32, value_storage: i32, accumulation: i32, probability: i32, query: i32, record: i32,
    key_group: u32, value_group: u32, exp_ulps: f32, tanh_ulps: f32, variants: *const *const c_char,
    create: extern "C" fn(*const Config, *mut *mut Layer) -> Status,
    destroy: extern "C" fn(*mut Layer),
    append: extern "C" fn(&mut Layer, *const f32, *const f32, usize) -> Status,
    attend: extern "C" fn(&Layer, *const f32, usize, usize, *mut f32) -> Status,
    forward: Unused, length: Unused,
    truncate: extern "C" fn(&mut Layer, usize) -> Status,
    rest: [Unused; 15], // clear, snapshot, restore, ... state
}
unsafe impl Sync for Engine {}

pub struct Layer {
    kv_heads: usize, dim: usize, heads: usize, window: usize, scale: f32, softcap: f32,
    sinks: Vec<f32>, k: Vec<f32>, v: Vec<f32>,
}
impl Layer {
    fn row(&self) -> usize { self.kv_heads * self.dim }
    fn positions(&self) -> usize { self.k.len() / self.row() }
    fn attend_head(&self, q: &[f32], head: usize, position: usize, out: &mut [f32]) {
        let kv = head / (self.heads / self.kv_heads);
        let first = if self.window == 0 { 0 } else { (position + 1).saturating_sub(self.window) };
        let at = |p: usize| p * self.row() + kv * self.dim;
        let scores: Vec<f32> = (first..=position).map(|p| {
            let s = q.iter().zip(&self.k[at(p)..]).map(|(a, b)| a * b).sum::<f32>() * self.scale;
            if self.softcap != 0.0 { self.softcap * (s / self.softcap).tanh() } else { s }
        }).collect();
        let sink = self.sinks.get(head).copied().unwrap_or(f32::NEG_INFINITY);
        let m = scores.iter().copied().fold(sink, f32::max);
        let den = scores.iter().map(|s| (s - m).exp()).sum::<f32>() + (sink - m).exp();
        out.fill(0.0);
        for (p, s) in (first..=position).zip(scores) {
            let weight = (s - m).exp() / den;
            for (o, v) in out.iter_mut().zip(&self.v[at(p)..]) { *o += weight * v; }
        }
    }
}

extern "C" fn create(config: *const Config, layer: *mut *mut Layer) -> Status {
    let c = unsafe { &*config };
    if c.kv_heads == 0 || c.query_heads % c.kv_heads != 0 { return 2; }
    let sinks = if c.sinks.is_null() { vec![] } else { unsafe { std::slice::from_raw_parts(c.sinks, c.query_heads) }.to_vec() };
    let made = Layer { kv_heads: c.kv_heads, dim: c.head_dim, heads: c.query_heads, window: c.window, scale: c.scale,
                       softcap: c.softcap, sinks, k: vec![], v: vec![] };
    unsafe { *layer = Box::into_raw(Box::new(made)) };
    OK
}
extern "C" fn destroy(layer: *mut Layer) { drop(unsafe { Box::from_raw(layer) }); }
extern "C" fn append(layer: &mut Layer, k: *const f32, v: *const f32, n: usize) -> Status {
    if n == 0 { return OK; } // an empty tensor may come as a null pointer
    let floats = n * layer.row();
    layer.k.extend_from_slice(unsafe { std::slice::from_raw_parts(k, floats) });
    layer.v.extend_from_slice(unsafe { std::slice::from_raw_parts(v, floats) });
    OK
}
extern "C" fn attend(layer: &Layer, q: *const f32, from: usize, n: usize, out: *mut f32) -> Status {
    if n == 0 { return OK; }
    if n > layer.positions() || from > layer.positions() - n { return 2; }
    let floats = n * layer.heads * layer.dim;
    let (q, out) = unsafe { (std::slice::from_raw_parts(q, floats), std::slice::from_raw_parts_mut(out, floats)) };
    for (i, (q, out)) in q.chunks(layer.dim).zip(out.chunks_mut(layer.dim)).enumerate() {
        layer.attend_head(q, i % layer.heads, from + i / layer.heads, out);
    }
    OK
}
extern "C" fn truncate(layer: &mut Layer, n: usize) -> Status {
    let kept = layer.positions().saturating_sub(n) * layer.row();
    layer.k.truncate(kept);
    layer.v.truncate(kept);
    OK
}
static ENGINE: Engine = Engine {
    abi: 1, size: std::mem::size_of::<Engine>(), name: b"plugin.rs\0".as_ptr() as *const c_char, version: b"1\0".as_ptr() as *const c_char, claims: 2,
    key_storage: 0, value_storage: 0, accumulation: 0, probability: 0, query: 0, record: 0, key_group: 0, value_group: 0,
    exp_ulps: 0.0, tanh_ulps: 0.0, variants: std::ptr::null(), create, destroy, append, attend,
    forward: std::ptr::null(), length: std::ptr::null(), truncate, rest: [std::ptr::null(); 15],
};
#[no_mangle]
pub extern "C" fn kvcert_engine_v1(_options: *const c_char) -> *const Engine { &ENGINE }
