"""Words that mark the function of a sentence: a request, a decision, an error or an outcome.

In languages that put spaces between words a word decides; in Chinese, Japanese and Thai a pattern.
"""

from __future__ import annotations

import re

REQUEST, DECISION, ERROR, OUTCOME = 1, 2, 4, 8

_WORDS = {
    REQUEST: """
        please need needs want wants wanted ask asked asks request requested requests must should could would
        todo task goal require required requires deadline urgent remind reminder question bitte brauche brauchen
        möchte möchten soll sollte muss müssen aufgabe frist frage veuillez besoin voudrais demande demandé doit
        devrait tâche objectif délai necesito necesita quiero quiere favor solicita pidió debe debería tarea
        objetivo plazo preciso precisa quero pedido deve deveria tarefa prazo vorrei bisogno richiesta deve
        пожалуйста нужно надо прошу просит должен следует задача срок вопрос أريد نريد يرجى رجاء طلب يجب مهمة
        موعد 부탁 필요 요청 원합니다 해주세요
    """,
    DECISION: """
        decide decided decides decision decisions agree agreed agrees choose chose chosen approve approved
        approval confirm confirmed confirms because therefore instead plan planned plans policy rule reject
        rejected selected prefer preferred settled conclusion concluded promise promised commit committed
        entschieden entscheidung vereinbart beschlossen bestätigt weil deshalb stattdessen geplant abgelehnt
        décidé décision convenu confirmé parce choisi approuvé refusé prévu decidido decisión acordado acordamos
        confirmado porque elegido aprobado rechazado decisão decidimos aprovado rejeitado escolhido deciso
        decisione approvato решили решено решение договорились подтверждено потому поэтому вместо одобрено
        отклонено قرر قررنا قرار اتفقنا وافق لأن بدلا تأكيد 결정 합의 승인 확인 때문에
    """,
    ERROR: """
        error errors err fail failed fails failure failures exception traceback panic fatal crash crashed denied
        refused timeout timed invalid missing wrong broken bug corrupt unable cannot unavailable warning
        rollback killed terminated interrupted stopped partial incomplete stuck
        abort aborted reject conflict leak outage incident severity root cause regression fehler
        fehlgeschlagen fehlt abgelehnt absturz störung ungültig warnung erreur échec échoué échouée manquant
        panne refusé invalide fallo falló fallido falta inválido excepción caída falha falhou erro inválida
        errore fallito ошибка ошибки сбой неудача отказ исключение неверный сломан خطأ فشل عطل مفقود مرفوض
        استثناء 오류 실패 에러 장애
    """,
    OUTCOME: """
        done fixed fix resolved solved finished completed complete created updated deleted removed added merged
        deployed released shipped passed works working succeeded success successful successfully booked
        cancelled canceled changed moved installed migrated restored result results total found shows booked
        paid refund refunded final finally closed verified reverted erledigt behoben gelöst fertig abgeschlossen
        erstellt gelöscht geändert ergebnis gefunden terminé corrigé résolu créé supprimé modifié résultat
        trouvé réussi hecho resuelto terminado completado creado eliminado resultado encontrado corregido feito
        resolvido concluído criado removido fatto risolto completato готово исправлено решена завершено создано
        удалено результат найдено تم أنجز أصلح نجح النتيجة 완료 해결 수정했습니다 성공 결과
    """,
}
CUE_WORDS = {word: cue for cue, words in reversed(_WORDS.items()) for word in words.split()}
UNSPACED_CUES = (
    (
        REQUEST,
        re.compile(
            "请|請|需要|希望|想要|务必|必须|要求|任务|截止|ください|下さい|お願い|欲しい|ほしい|必要|期限|โปรด|กรุณา|ต้องการ"
        ),
    ),
    (
        DECISION,
        re.compile(
            "决定|決定|同意|确认|確認|选择|選択|因为|所以|批准|计划|採用|合意|ため|予定|ตัดสินใจ|ตกลง|ยืนยัน|เพราะ"
        ),
    ),
    (
        ERROR,
        re.compile(
            "错误|錯誤|失败|失敗|异常|異常|故障|崩溃|超时|拒绝|エラー|例外|障害|不具合|タイムアウト|ผิดพลาด|ล้มเหลว"
        ),
    ),
    (OUTCOME, re.compile("完成|解决|解決|修复|修正|成功|结果|結果|已经|完了|作成|削除|変更|สำเร็จ|เสร็จ|แก้ไข")),
)
