"""Text as it is stored: compressed, and what such texts have in common is known beforehand.

Below a kilobyte, the unit that writes are billed by, an item costs half of what it costs above it.
"""

import zlib

# A record and what is told of it, as they mostly are: the compressor writes down only what differs. It is
# part of what is stored, and so never changes: another one needs another attribute to be stored under.
_IN_COMMON = (
    b'{"id":"evt_01","type":"instance.running","sequence":1,"timestamp":"2026-01-01T00:00:00.000Z",'
    b'"instanceId":"inst_01","novitaInstanceId":"","elapsedTime":0,"reason":"","error":{"code":"",'
    b'"message":"","details":{}},"healthCheck":{"overall":"unhealthy","endpoints":[{"port":8188,'
    b'"endpoint":"https://-8188.proxy.gpu-instance.novita.ai/","type":"http","status":"unhealthy",'
    b'"responseTime":10,"lastChecked":"2026-01-01T00:00:00.000Z","error":{"category":'
    b'"bad_gateway"}}]},"startupOperation":{"operationId":"op_01","kind":"start","startedAt":'
    b'"2026-01-01T00:00:00.000Z","phases":[{"status":"health_checking","at":"2026"}]},"data":{'
    b'"correlationId":""missing":true,"rate":"0.","since":"2026-01-01T00:00:00Z","confirmed":true,'
    b'"booked_until":"unsure":true,"recovery":{"again_at":"attempts":"reclaim","on_reclaim":{'
    b'"action":"restart"},"limits":{"stop_after":"delete_after":"idle_stop_after":"ceilings":{'
    b'"protected":true,"max_price":"placement":"cheapest","tags":[["{"id":"inst_01","name":"",'
    b'"spec":{"product_name":"RTX 4090 24GB","template_id":"1","gpu_num":1,"rootfs_size":60,"region":'
    b'"CN-HK-01","health_check":{}},"status":"exited","created_at":"2026-01-01T00:00:00.000000Z",'
    b'"updated_at":"2026-01-01T00:00:00.000000Z","deadline_at":null,"next_check_at":null,"actor":'
    b'"key_","correlation_id":"","webhook_url":"https://","version":1,"token":"","sequence":1,'
    b'"machine":{"id":"","region":"AS-SGP-02","product_id":"4090.16c62g","price":"0.","bought_at":'
    b'"2026-01-01T00:00:00.000000Z","boot":{"median":"sigma":"samples":"until":"novita_status":'
    b'"running","endpoints":[{"port":8188,"type":"http","address":"https://"},{"port":22,"type":'
    b'"tcp","address":""}],"expects_endpoints":true,"spot_status":"running","looked_at":'
    b'"2026-01-01T00:00:00.000000Z","seen_at":"2026-01-01T00:00:00.000000Z","needs_look":true,'
    b'"first_missed_at":"2026-01-01T00:00:00Z","owned":true,"acted_at":'
    b'"2026-01-01T00:00:00.000000Z"},"purchases":{"count":1,"unsettled":true,"read_at":'
    b'"2026-01-01T00:00:00.000000Z","price":"0."},"cleanup":{"tasks":[{"machine_id":"","action":'
    b'"delete","seen_at":"2026","asked_at":"2026"}],"gone":[""]},"ledger":{"meters":[{"machine_id":'
    b'"","kind":"compute","since":"2026-01-01T00:00:00.000000Z","rate":"0.","region":"CN-HK-01"}],'
    b'"closed_usd":"0.00","estimated":true,"lines":1,"entries":1,"ended":[[""operation":{"id":'
    b'"op_01","kind":"delete","status":"completed","actor":"key_","began_at":'
    b'"2026-01-01T00:00:00.000000Z","phases":[["initiated","2026-01-01T00:00:00.000000Z"],["monitoring'
    b'","2026-01-01T00:00:00.000000Z"],["completed","2026-01-01T00:00:00.000000Z"]],"attempts":1,'
    b'"pending":true,"began_in":"ready"},"rounds":{"made":1,"until":"2026"},"health":{"overall":'
    b'"healthy","endpoints":[{"port":80,"endpoint":"https://","type":"http","status":"healthy",'
    b'"responseTime":0,"lastChecked":"2026-01-01T00:00:00.000Z"}]},"probed_at":'
    b'"2026-01-01T00:00:00.000000Z","ready_at":"2026-01-01T00:00:00.000000Z","clock":{"ran_at":'
    b'"2026-01-01T00:00:00.000000Z","running_since":"2026-01-01T00:00:00.000000Z","ready_since":'
    b'"2026-01-01T00:00:00.000000Z"},"ended_by":"user"}'
)
_LEVEL, _BARE = 9, -15  # neither header nor checksum: the table keeps what it is given


def pack(text: str) -> bytes:
    compressor = zlib.compressobj(_LEVEL, wbits=_BARE, zdict=_IN_COMMON)
    return compressor.compress(text.encode()) + compressor.flush()


def unpack(stored: bytes) -> str:
    decompressor = zlib.decompressobj(_BARE, zdict=_IN_COMMON)
    try:
        text = decompressor.decompress(stored).decode()
    except zlib.error as error:
        raise ValueError("not as it was stored") from error
    if not decompressor.eof:
        raise ValueError("not as it was stored")
    return text
