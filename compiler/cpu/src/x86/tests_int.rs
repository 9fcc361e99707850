//! Integer instructions against an independent disassembler.

use iced_x86::{Decoder, DecoderOptions};

use super::encode::{Alu, Assembler, Condition, Gpr, Mem, RDX, Rm};
use crate::vector::PrefetchHint;

/// Disassembles the code that `build` emits, one instruction per line.
fn text(build: impl Fn(&mut Assembler)) -> String {
    let mut asm = Assembler::default();
    build(&mut asm);
    let bytes = asm.finish();
    let decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
    decoder.into_iter().map(|it| format!("{it}\n")).collect()
}

#[test]
fn integers_move_between_registers_and_memory() {
    let text = text(|asm| {
        for (a, b) in [(0, 9), (12, 4), (5, 13)] {
            let (a, b) = (Gpr(a), Gpr(b));
            asm.copy(a, b);
            asm.load(a, Mem::at(b, 8));
            asm.store(Mem::at(b, 0), a);
            asm.lea(b, Mem { index: Some((a.0 ^ 1, 4)), ..Mem::at(a, -300) });
            asm.push(b);
            asm.pop(a);
        }
        for value in [0, 7, -1, 0xffff_ffff, 0x1_0000_0000] {
            asm.constant(Gpr(3), value);
            asm.constant(Gpr(11), value);
        }
        asm.store_constant(Mem::at(Gpr(4), 40), -5);
        asm.prefetch(Mem::at(Gpr(5), -64), PrefetchHint::Read);
        asm.prefetch(Mem { index: Some((9, 1)), ..Mem::at(Gpr(12), 0) }, PrefetchHint::Read);
        asm.prefetch(Mem::at(Gpr(5), 64), PrefetchHint::ReadLater);
        for size in [1, 2, 4] {
            asm.load_small(size, RDX, Mem::at(Gpr(10), 3));
            asm.store_small(size, Mem::at(Gpr(4), 3), RDX);
        }
    });
    insta::assert_snapshot!(text, @r"
    mov rax,r9
    mov rax,[r9+8]
    mov [r9],rax
    lea r9,[rax+rcx*4-12Ch]
    push r9
    pop rax
    mov r12,rsp
    mov r12,[rsp+8]
    mov [rsp],r12
    lea rsp,[r12+r13*4-12Ch]
    push rsp
    pop r12
    mov rbp,r13
    mov rbp,[r13+8]
    mov [r13],rbp
    lea r13,[rbp-12Ch]
    push r13
    pop rbp
    xor ebx,ebx
    xor r11d,r11d
    mov ebx,7
    mov r11d,7
    mov rbx,0FFFFFFFFFFFFFFFFh
    mov r11,0FFFFFFFFFFFFFFFFh
    mov ebx,0FFFFFFFFh
    mov r11d,0FFFFFFFFh
    mov rbx,100000000h
    mov r11,100000000h
    mov qword ptr [rsp+28h],0FFFFFFFFFFFFFFFBh
    prefetcht0 [rbp-40h]
    prefetcht0 [r12+r9]
    prefetcht1 [rbp+40h]
    movzx edx,byte ptr [r10+3]
    mov [rsp+3],dl
    movzx edx,word ptr [r10+3]
    mov [rsp+3],dx
    mov edx,[r10+3]
    mov [rsp+3],edx
    ");
}

#[test]
fn integers_are_combined_and_compared() {
    let text = text(|asm| {
        for rm in [Rm::Reg(8), Rm::Mem(Mem::at(Gpr(4), 16)), Rm::Mem(Mem::at(Gpr(13), 0))] {
            for op in [Alu::Add, Alu::Sub, Alu::And, Alu::Cmp] {
                asm.alu(op, Gpr(6), rm);
                asm.alu_constant(op, rm, 100);
            }
            asm.alu_constant(Alu::Add, rm, -1000);
            asm.multiply(Gpr(9), rm);
            asm.multiply_constant(Gpr(1), rm, 3);
            asm.multiply_constant(Gpr(1), rm, 300);
            asm.divide(rm);
        }
        asm.alu_to_memory(Alu::Sub, Mem::at(Gpr(4), 200), Gpr(15));
        asm.test(Gpr(9));
        asm.test_byte(Mem::at(Gpr(4), 65), 0x80);
        asm.multiply_wide(Gpr(14));
        asm.shift_left(Gpr(0), 5);
        asm.shift_right(Gpr(10), 63);
        asm.vzeroupper();
        asm.ret();
    });
    insta::assert_snapshot!(text, @r"
    add rsi,r8
    add r8,64h
    sub rsi,r8
    sub r8,64h
    and rsi,r8
    and r8,64h
    cmp rsi,r8
    cmp r8,64h
    add r8,0FFFFFFFFFFFFFC18h
    imul r9,r8
    imul rcx,r8,3
    imul rcx,r8,12Ch
    div r8
    add rsi,[rsp+10h]
    add qword ptr [rsp+10h],64h
    sub rsi,[rsp+10h]
    sub qword ptr [rsp+10h],64h
    and rsi,[rsp+10h]
    and qword ptr [rsp+10h],64h
    cmp rsi,[rsp+10h]
    cmp qword ptr [rsp+10h],64h
    add qword ptr [rsp+10h],0FFFFFFFFFFFFFC18h
    imul r9,[rsp+10h]
    imul rcx,[rsp+10h],3
    imul rcx,[rsp+10h],12Ch
    div qword ptr [rsp+10h]
    add rsi,[r13]
    add qword ptr [r13],64h
    sub rsi,[r13]
    sub qword ptr [r13],64h
    and rsi,[r13]
    and qword ptr [r13],64h
    cmp rsi,[r13]
    cmp qword ptr [r13],64h
    add qword ptr [r13],0FFFFFFFFFFFFFC18h
    imul r9,[r13]
    imul rcx,[r13],3
    imul rcx,[r13],12Ch
    div qword ptr [r13]
    sub [rsp+0C8h],r15
    test r9,r9
    test byte ptr [rsp+41h],80h
    mul r14
    shl rax,5
    shr r10,3Fh
    vzeroupper
    ret
    ");
}

#[test]
fn jumps_reach_labels_on_both_sides() {
    let text = text(|asm| {
        let (top, end) = (asm.label(), asm.label());
        asm.align(8);
        asm.bind(top);
        asm.jump_if(Condition::LessOrEqual, end);
        asm.jump_if(Condition::NotEqual, top);
        asm.jump(end);
        asm.align(16);
        asm.jump(top);
        for _ in 0..12 {
            asm.store_constant(Mem::at(Gpr(4), 1000), 0);
        }
        asm.jump(top);
        asm.jump_if(Condition::GreaterOrEqual, top);
        asm.bind(end);
        asm.ret();
    });
    insta::assert_snapshot!(text, @r"
    jle 00000000000000ADh
    jne short 0
    jmp 00000000000000ADh
    nop [rax]
    jmp short 0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    mov qword ptr [rsp+3E8h],0
    jmp 0
    jge 0
    ret
    ");
}
